"""Learning an encoder together with the other factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, pi
from time import perf_counter

import torch
from torch import Tensor

from parafair.algebra.adam import Adam
from parafair.algebra.devices import identity
from parafair.dependence.chunks import chunk_count, stratify
from parafair.dependence.whitening import spread_basis
from parafair.encoders.base import Encoder
from parafair.encoders.inputs import make_inputs
from parafair.encoders.learned import Learned, LearnedEncoder
from parafair.encoders.result import EncodedFit, encode_people
from parafair.errors import Interrupted
from parafair.solvers import Fit, Status
from parafair.solvers.block import carry_scale
from parafair.solvers.checkpoints import current_journal
from parafair.solvers.fitting import complete
from parafair.solvers.loop import OnIteration
from parafair.solvers.objective import Objective
from parafair.solvers.problem import Problem
from parafair.solvers.result import Iteration
from parafair.solvers.sweep import Sweep

# The strength grows to its full size over this share of the steps, from this share of it.
RAMP, LEAST = 0.2, 0.01
# The other factors are fitted again after this many steps, or after all batches.
REFIT = 5
# Passes over the other factors at the end.
LAST_PASSES = 5
# The last learning rate, as a share of the first.
LAST_RATE = 0.02
# Averaging of the gradient and of its square.
BETAS = (0.9, 0.99)
# Added to the variance of rows, as a share of its mean over all directions: a flat direction has a
# root too.
FLAT = 1e-6


def learn(
    problem: Problem,
    plain: Fit,
    settings: Learned,
    *,
    noise: float,
    seed: int,
    on_iteration: OnIteration | None = None,
) -> EncodedFit:
    """Return a fit whose rows are those of its encoder, without noise.

    The encoder begins as the regression of the plain rows on the inputs.

    Args:
        problem: What to minimize; its people have sensitive features.
        plain: Its plain decomposition.
        settings: The settings of the encoder.
        noise: Noise of the released rows, as a share of their standard deviation; encoder and
            other factors are learned with as much.
        seed: Seed of the initial weights, the order of the batches and the noise.
        on_iteration: Called after each step with its number and the objective of its batch.

    Raises:
        Interrupted: On Ctrl-C, with the fit after the last finished step.
        Terminated: On SIGTERM, if there is a checkpoint.
    """
    start = plain.with_factors(problem, plain.cp.factors)
    history, begin = [start.history[-1]], perf_counter()
    learner = _Learner(problem, plain, settings, noise=noise, seed=seed)
    journal = current_journal()
    key = "" if journal is None else journal.begin()

    def finish(status: Status) -> EncodedFit:
        encoder, factors = learner.finish()
        # The last objective is that of everybody.
        before = tuple(history[:-1] or history)
        fit = replace(start, status=status, history=before)
        fit = fit.with_factors(problem, factors, seconds=history[-1].seconds - before[-1].seconds)
        return EncodedFit.of(complete(problem, fit), encoder)

    try:
        for number in range(settings.steps):
            objective = learner.step(number)
            history.append(Iteration.of(objective, start.seconds + perf_counter() - begin))
            if on_iteration is not None:
                on_iteration(number + 1, objective)
            if journal is not None:  # steps are not stored: a fit that continues takes them again
                journal.offer(key, lambda: None)
    except KeyboardInterrupt as error:
        raise Interrupted(finish(Status.INTERRUPTED)) from error
    return finish(Status.FINISHED)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some of the people: their part of the problem, and their inputs."""

    problem: Problem
    inputs: Tensor


class _Learner:
    """An encoder and the other factors, while they are learned.

    The encoder gives rows in units of the plain ones, so that one learning rate fits all weights on
    any data.
    """

    def __init__(
        self, problem: Problem, plain: Fit, settings: Learned, *, noise: float, seed: int
    ) -> None:
        self.settings, self.noise = settings, noise
        self.generator = torch.Generator("cpu").manual_seed(seed)
        self.exact, self.problem = problem, problem.single
        self.factors = [factor.to(self.problem.prototype)[None] for factor in plain.cp.factors]
        rows = self.factors[problem.mode][0]
        seen = problem.penalized_rows(rows)
        self.mean, self.units = seen.mean(0), spread_basis(seen).to(rows)
        inputs = make_inputs(problem, plain.cp.factors)
        self.inputs = self._inputs_of(inputs).to(rows)
        self.encoder = self._first(inputs, rows)
        self.optimizer = Adam(self.encoder.parameters, betas=BETAS)
        self.batches = make_batches(self.problem, self.inputs, settings.batch_size)
        self.coming: list[int] = []

    def _inputs_of(self, inputs: Encoder) -> Tensor:
        """Return the inputs of everybody; those of people without entries do not matter."""
        zero = self.exact.prototype.new_zeros(1)
        return encode_people(inputs, self.exact.data, empty=zero)

    def _first(self, inputs: Encoder, rows: Tensor) -> LearnedEncoder:
        """Return the encoder before the first step: a regression; hidden units add nothing yet."""
        ones = torch.ones_like(rows[:, :1])
        wanted = (rows - self.mean) @ torch.linalg.pinv(self.units)
        design = torch.hstack([self.inputs, ones]).double()
        # By normal equations: on a CPU, `lstsq` pivots from uninitialized memory, so that it gives
        # the same problem other last bits each time.
        inverse = torch.linalg.pinv(design.mT @ design, hermitian=True)
        found = (inverse @ (design.mT @ wanted.double())).to(rows)
        width, hidden = self.inputs.shape[1], self.settings.hidden
        first = (
            found[:-1],
            found[-1],
            self._normal(width, hidden) / width**0.5,
            self._normal(hidden) / 2,
            rows.new_zeros(hidden, rows.shape[1]),
        )
        return LearnedEncoder(inputs, *(each.detach().clone().requires_grad_() for each in first))

    def step(self, number: int) -> Objective:
        """Take one step with the next batch; return its objective."""
        if number % max(REFIT, len(self.batches)) == 0:
            self._refit(self.problem, passes=1)
        share, mode = number / self.settings.steps, self.problem.mode
        if not self.coming:
            count, generator = len(self.batches), self.generator
            self.coming = torch.randperm(count, generator=generator, device="cpu").tolist()
        batch = self.batches[self.coming.pop()]
        rows, noise = self._rows(batch.inputs, batch.problem)
        factors = self._with_people(rows + noise)
        penalty, slopes = batch.problem.penalty_and_gradients(factors)
        loss, slope = batch.problem.loss_and_gradients(factors)
        # The loss is quadratic: with the opposite noise too, noise cancels from the slope of rows.
        _, opposite = batch.problem.loss_and_gradients(self._with_people(rows - noise))
        pressed = min(1.0, LEAST + share / RAMP)
        here = slope[mode][0] / 2 + pressed * slopes[mode][0]
        there = opposite[mode][0] / 2
        # Adam ignores gradients near 1e-8, so they are in units of the data.
        unit = self.problem.count / self.problem.norm_squared
        gradients = torch.autograd.grad(
            (rows + noise, rows - noise), self.optimizer.parameters, (here * unit, there * unit)
        )
        self.optimizer.step(gradients, self.settings.learning_rate * _falling(share))
        return batch.problem.objective(factors, loss, penalty)

    def finish(self) -> tuple[LearnedEncoder, tuple[Tensor, ...]]:
        """Return the encoder and all factors; the people's rows are those of the encoder."""
        mode, like = self.exact.mode, self.exact.prototype
        self.factors = [factor.to(like) for factor in self.factors]
        self.inputs = self._inputs_of(self.encoder.inputs)
        self.mean, self.units = self.mean.to(like), self.units.to(like)
        parameters = (each.detach().to(like) for each in self.encoder.parameters)
        self.encoder = self.encoder.with_parameters(parameters)
        self._refit(self.exact, passes=LAST_PASSES)
        # The people's factor carries the scale of all others, and so does the encoder.
        self.factors[mode] = like.new_ones(1, 1, len(self.mean))
        factors = carry_scale(tuple(self.factors), mode)
        scale = factors[mode][0]
        encoder = self.encoder.then(self.units * scale, self.mean * scale[0])
        rows = encoder.of_inputs(self.inputs)
        return encoder, tuple(rows if m == mode else f[0] for m, f in enumerate(factors))

    def _rows(self, inputs: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
        """Return rows of people, and fresh noise of the size that released rows have."""
        rows = self.encoder.of_inputs(inputs) @ self.units + self.mean
        seen = problem.penalized_rows(rows)
        seen = seen - seen.mean(0)
        variance = seen.mT @ seen / len(seen)
        flat = FLAT * variance.diagonal().mean() + torch.finfo(rows.dtype).tiny
        root = torch.linalg.cholesky(variance + flat * identity(len(variance), variance))
        return rows, self.noise * self._normal(*rows.shape) @ root.mT

    def _with_people(self, rows: Tensor) -> list[Tensor]:
        """Return all factors, with these rows of people."""
        factors = [*self.factors]
        factors[self.problem.mode] = rows.detach()[None]
        return factors

    def _refit(self, problem: Problem, *, passes: int) -> None:
        """Fit the other factors to rows with noise."""
        with torch.no_grad():
            rows, noise = self._rows(self.inputs, problem)
            sweep = Sweep(problem, self._with_people(rows + noise))
            sweep.refit_others(passes)
        self.factors = sweep.factors

    def _normal(self, *shape: int) -> Tensor:
        """Return standard normal numbers, the same on all devices."""
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float32, device="cpu")
        return drawn.to(self.inputs)


def make_batches(problem: Problem, inputs: Tensor, size: int) -> list[Batch]:
    """Return batches of people, each with its share of every group.

    Args:
        problem: The problem of everybody.
        inputs: Their inputs, shape (people, width).
        size: About how many people are in a batch.
    """
    everybody, features = problem.sensitive, problem.penalized_features
    assert everybody is not None
    count = chunk_count(features, size)
    people = torch.arange(len(inputs), device="cpu")
    seen = people if problem.penalized is None else problem.penalized.cpu()
    # People without features or entries are dealt out too.
    left = people[~torch.isin(people, seen)]
    found = []
    for number, chunk in enumerate(stratify(features, count)):
        places = torch.cat([seen[chunk], left[number::count]]).sort().values
        part = problem
        if count > 1:
            part = replace(
                problem,
                data=problem.data.take(problem.mode, places.numpy()),
                sensitive=everybody.take(places.numpy()),
            )
        found.append(Batch(part, inputs[places.to(inputs.device)]))
    return found


def _falling(share: float) -> float:
    """Return the learning rate after a share of the steps, relative to the first."""
    return LAST_RATE + (1 - LAST_RATE) * (1 + cos(pi * share)) / 2
