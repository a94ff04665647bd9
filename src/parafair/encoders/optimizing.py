"""Learning an encoder together with the other factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, pi
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.adam import Adam
from parafair.algebra.devices import identity
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.chunks import FEWEST_OF_A_GROUP, chunk_count, stratify
from parafair.dependence.whitening import spread_basis
from parafair.encoders.base import Encoder
from parafair.encoders.inputs import PositionEncoder, make_inputs
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
# If entries are missing, new people may lack other ones: beside the inputs from all entries, there
# are so many from some of them, where up to this share of a person's entries is left out.
THINNED, MOST_LEFT_OUT = 4, 0.5
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
    """Some of the people: their part of the problem, and their positions."""

    problem: Problem
    people: Tensor


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
        if not self.units.any():
            raise ValueError(
                "the plain decomposition gives everybody the same row, so an encoder has nothing "
                "to learn from; pass another init or a smaller ridge, or leave encoder out"
            )
        self.inputs = self._inputs_of(inputs, self.exact.data).to(rows)
        self.thinned: list[Tensor] = []
        if isinstance(inputs, PositionEncoder) and not self.exact.data.zeros_count:
            for _ in range(THINNED):
                fewer = thinned(self.exact.data, problem.mode, self.generator)
                self.thinned.append(self._inputs_of(inputs, fewer).to(rows))
        self.encoder = self._first(inputs, rows)
        self.optimizer = Adam(self.encoder.parameters, betas=BETAS)
        self.batches = make_batches(self.problem, settings.batch_size)
        self.coming: list[int] = []

    def _inputs_of(self, inputs: Encoder, data: TensorData) -> Tensor:
        """Return the inputs of everybody; those of people without entries do not matter."""
        return encode_people(inputs, data, empty=self.exact.prototype.new_zeros(1))

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
        batch, inputs = self.batches[self.coming.pop()], self.inputs
        if self.thinned:
            views, generator = [self.inputs, *self.thinned], self.generator
            inputs = views[int(torch.randint(len(views), (1,), generator=generator, device="cpu"))]
        rows, noise = self._rows(inputs[batch.people], batch.problem)
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
        self.inputs = self._inputs_of(self.encoder.inputs, self.exact.data)
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


def thinned(data: TensorData, mode: int, generator: torch.Generator) -> TensorData:
    """Return incomplete data without some of each person's entries.

    From everybody another share is left out, and each person keeps at least one entry.
    """
    people, count = data.cells[mode].cpu(), data.shape[mode]
    left_out, drawn = (
        torch.rand(size, generator=generator, dtype=torch.float64, device="cpu")
        for size in (count, len(people))
    )
    left_out *= MOST_LEFT_OUT
    largest = drawn.new_zeros(count).scatter_reduce(0, people, drawn, "amax")
    kept = (drawn >= left_out[people]) | (drawn == largest[people])
    return data.keep(kept.numpy())


def make_batches(problem: Problem, size: int) -> list[Batch]:
    """Return batches of people, each with its share of every group.

    If people differ in their numbers of entries, everybody is in two batches. The people of the
    second have about as many entries as each other: the encoder then hides the group from those
    who know the number too.

    Args:
        problem: The problem of everybody.
        size: About how many people are in a batch.
    """
    features, mode = problem.penalized_features, problem.mode
    count = chunk_count(features, size)
    people = np.arange(problem.shape[mode])
    seen = people if problem.penalized is None else problem.penalized.cpu().numpy()
    # People without features or entries are dealt out too.
    left = np.setdiff1d(people, seen)
    parts = [seen[chunk.numpy()] for chunk in stratify(features, count)]
    batches = [
        _batch(problem, np.sort(np.concatenate([own, left[number::count]])), of=count)
        for number, own in enumerate(parts)
    ]
    entries = problem.data.observed_per(mode)[seen]
    if count > 1 and len(np.unique(entries)) > 1:
        order = np.argsort(entries, kind="stable")
        alike = [np.sort(seen[part]) for part in _with_all_groups(order, features, count)]
        batches += [_batch(problem, own, of=len(alike)) for own in alike]
    return batches


def _with_all_groups(
    order: NDArray[np.intp], features: SensitiveFeatures, count: int
) -> list[NDArray[np.intp]]:
    """Return consecutive parts of people, as many as have enough people of every group."""
    columns = [column for column in features.columns if column.kind == "categorical"]
    for parts in range(count, 1, -1):
        found = np.array_split(order, parts)
        sizes = (
            np.bincount(column.values[part], minlength=len(column.categories)).min()
            for column in columns
            for part in found
        )
        if min(sizes, default=FEWEST_OF_A_GROUP) >= FEWEST_OF_A_GROUP:
            return found
    return []


def _batch(problem: Problem, places: NDArray[np.intp], *, of: int) -> Batch:
    """Return the batch of these people, one of so many batches."""
    part, everybody = problem, problem.sensitive
    assert everybody is not None
    if of > 1:
        data, sensitive = problem.data.take(problem.mode, places), everybody.take(places)
        part = replace(problem, data=data, sensitive=sensitive)
    return Batch(part, torch.from_numpy(places).to(problem.prototype.device))


def _falling(share: float) -> float:
    """Return the learning rate after a share of the steps, relative to the first."""
    return LAST_RATE + (1 - LAST_RATE) * (1 + cos(pi * share)) / 2
