"""Noise at the resolution of the criterion: released rows have no finer differences.

A penalty does not see differences between people that are far smaller than its finest bandwidth.
They cost it nothing, so a fit may contain them, and an attacker such as a tree finds them. Noise of
that size hides them. It is Gaussian, and its covariance is a multiple of that of the rows.

Training people get noise once per fit. New people get noise of their own: a copy of a training
person's noise would tell which training person is near, and with that the sensitive features.

A model keeps the shifts of its training people, for new people. They are functions of the rows
before noise, and simple ones for some methods: whoever had them could compute these rows, nearly.
So the shifts have noise of their own, about half as large. All that a saved model has of a person
is then noisy. Whoever has the training data can draw the noise of the rows again and subtract it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import real_number
from parafair.data.tensor_data import TensorData
from parafair.dependence.whitening import spread_basis
from parafair.errors import warn
from parafair.losses import Loss, has_link, is_squared
from parafair.model.draws import normals_of_people
from parafair.penalties import NoisyPenalty
from parafair.solvers.decomposition import Decomposition
from parafair.solvers.fitting import fill_empty
from parafair.solvers.non_negative import project
from parafair.solvers.parameters import parameter_of, to_factors, to_parameters
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit
from parafair.solvers.sharing import own_rows
from parafair.team import ALONE, Share, Team

if TYPE_CHECKING:
    from parafair.model.record import Record

# More noise than this leaves nothing of an embedding.
MOST_NOISE = 10.0
# Noise of the shifts, as a share of that of the rows. It is measured in the tests: less would tell
# more of the rows before noise, more would move new people further than their noise does.
SHARE_OF_SHIFTS = 0.5
# Where keys of its draws begin; those of the rows of a mode are the number of the mode.
SHIFTS_KEY = (0, 1)


def check_noise(noise: object) -> None:
    """Raise unless the noise is None or a number from 0 to `MOST_NOISE`."""
    if noise is None:
        return
    try:
        real_number("noise", noise, least=0, most=MOST_NOISE)
    except ValueError as error:
        raise ValueError(
            f"{error}; it is a share of the standard deviation of the embedding, such as 0.1, or "
            "None for the default of the method"
        ) from error


def default_noise(penalty: object, strength: float | None) -> float:
    """Return the noise that a method has by default at a strength."""
    return float(penalty.default_noise) if strength and isinstance(penalty, NoisyPenalty) else 0.0


def warn_without_noise(noise: float, usual: float, *, stacklevel: int) -> None:
    """Warn if a fit has no noise although its method has some by default.

    Args:
        noise: The noise of the fit.
        usual: The noise that it has by default.
        stacklevel: As in `warn`.
    """
    if usual and not noise:
        warn(
            f"with noise={noise:g}, differences far below the resolution of the method stay in "
            "the embedding; it does not see them, and they can reveal the group. Omit noise for "
            f"the default of {usual:g}, or audit the embedding before use",
            stacklevel=stacklevel + 1,
        )


def warn_of_costly_noise(fit: Fit, loss: Loss, *, stacklevel: int) -> None:
    """Warn if noise makes predictions worse than a constant, as it often does with a link.

    Args:
        fit: The fit, as released.
        loss: The loss.
        stacklevel: As in `warn`.
    """
    before = fit.before_noise.residual
    if is_squared(loss) or not fit.noise or before >= 1 or fit.residual <= 1:
        return
    larger = ", and a link makes it larger" if has_link(loss) else ""
    warn(
        f"noise raises the {loss.measure} from {before:.3g} to {fit.residual:.3g}, so predictions "
        f"are worse than a constant: rows far from the others make everybody's noise large{larger}"
        ". Embeddings, audits and certificates are not affected; for "
        "predictions use less noise, or a larger ridge",
        stacklevel=stacklevel + 1,
    )


def warn_of_exact(fit: Fit, *, stacklevel: int) -> None:
    """Warn if a folder has rows without noise; a fit without noise has no other rows.

    Args:
        fit: The fit that was written.
        stacklevel: As in `warn`.
    """
    if fit.noiseless is not None:
        warn(
            "the folder contains the rows without noise: whoever has it knows the noise of every "
            "released row, and no certificate holds against them",
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True)
class Noise:
    """Noise of a fit.

    Attributes:
        level: Its size, as a share of the standard deviation of the rows in every whitened
            direction; 0 for none.
        seed: The seed of the model.
        secret: A hash of the training data, or what a model keeps of it for new people; see
            `parafair.model.draws`.
        strength: The strength of the penalty; None without one.
        cheapest: Whether the noise of the people costs equally much in every direction, up to their
            whole spread, and together at most as much as with the same share of the spread in all
            directions. It is for people who share places: what one row reveals does not depend on
            the noise then, which has to hide neighbors alone.
        method: What tells fits without a strength apart.
    """

    level: float
    seed: int
    secret: str = field(repr=False)
    strength: float | None = None
    cheapest: bool = False
    method: str = ""

    @classmethod
    def of_record(cls, record: Record, secret: str) -> Noise:
        """Return the noise of a fitted model, for new people."""
        return cls(record.noise, record.seed, secret, record.strength)

    def release(self, problem: Problem, fit: Fit) -> Fit:
        """Return a finished fit with noise in every mode with sensitive features, and its shifts.

        The noise depends on the seed, on the data and on the covariance of the penalized rows, not
        on the initial factors. Fits of another level, strength, method or rank have independent
        noise: otherwise two of them together would give the rows without noise. Without the data
        nobody can draw it again, even if the seed is known. Rows without observed entries are the
        mean of the other rows, as before. Shifts are relative to the least-squares rows with all
        other factors as they are released.

        Args:
            problem: The problem that was solved; of one member, if it has several strengths.
            fit: The fit, without noise.
        """
        if not self.level or not problem.sensitive_modes:
            return _with_shifts(problem, fit)
        # Only sensitive modes of a structure need its bases.
        structure = problem.structure if problem.other_sensitive else None
        parts = list(to_parameters([factor[None] for factor in fit.cp.factors], structure))
        places = {mode: parameter_of(mode, structure) for mode in problem.sensitive_modes}
        exact = {mode: parts[place][0] for mode, place in places.items()}
        shares = {problem.mode: problem.share}
        matrices = {
            mode: self.of_people(problem, fit)
            if mode == problem.mode
            else self.matrix(problem.penalized_rows(rows, mode))
            for mode, rows in exact.items()
        }
        for mode, rows in exact.items():
            noise = self._of_training(rows, mode, matrices[mode], shares.get(mode))
            parts[places[mode]] = (rows + noise)[None]
        factors = [factor[0] for factor in to_factors(parts, structure)]
        cp = fill_empty(problem, CPTensor.from_factors(factors))
        broken = not all(torch.isfinite(factor).all() for factor in cp.factors)
        if problem.team.count(broken):
            return _with_shifts(problem, fit)  # a diverged fit with entries near the largest number
        people = exact.pop(problem.mode)
        if exact and fit.plain is not None:
            others = [*cp.factors]
            others[problem.mode] = people
            fit = replace(fit, cp=CPTensor.from_factors(others)).with_plain(problem)
        released = _with_shifts(problem, fit).with_factors(problem, cp.factors)
        shifts = released.shifts
        if shifts is not None:
            like = self.matrix(problem.penalized_rows(shifts), problem.team)
            drawn = self._of_shifts(shifts, [matrices[problem.mode], like], problem.share)
            shifts = shifts + drawn
        return replace(
            released, noise=matrices, shifts=shifts, noiseless=people, noiseless_others=exact
        )

    def subtract(self, problem: Problem, fit: Fit) -> Fit:
        """Return a released fit as it was before noise, up to rounding errors.

        Args:
            problem: The problem that was solved, with the same data; without penalties on bases.
            fit: The fit, with noise of this seed and data, or without noise; on any device. Several
                processes pass the rows of everybody, and get those of their own people.
        """
        everybody = [factor.to(problem.prototype) for factor in fit.cp.factors]
        factors = list(own_rows(problem, everybody))
        shares = {problem.mode: problem.share}
        for mode, matrix in fit.noise.items():
            drawn = self._of_training(factors[mode], mode, matrix, shares.get(mode))
            factors[mode] = factors[mode] - drawn
        # Rounding errors must not make them negative.
        factors = list(project(problem.non_negative, factors))
        exact = replace(
            fit,
            cp=fill_empty(problem, CPTensor.from_factors(factors)),
            history=fit.history[:-1] if fit.noise else fit.history,
            noise={},
            shifts=None,
            noiseless=None,
            noiseless_others={},
        )
        return exact.with_plain(problem).with_side(problem)

    def of_new_people(
        self,
        data: TensorData,
        mode: int,
        matrix: Tensor,
        side: TensorData | None = None,
        *,
        zeros: bool = False,
    ) -> Tensor:
        """Return noise for each new person, shape (people, rank).

        The noise of a person depends on the seed, the secret and that person's entries alone. So it
        does not depend on the other people, and embedding a person again does not average it out.
        But people with equal entries in one call have noise of their own.

        Args:
            data: Entries of the new people, as they were given.
            mode: The mode of the people.
            matrix: That of the training people's noise.
            side: Their side information, whose entries count like the others; None without any.
            zeros: Whether entries that a list does not have are zeros for the model.
        """
        rank = len(matrix)
        key = self.key_of_new_people(rank)
        drawn = normals_of_people(data, mode, rank, key=key, side=side, zeros=zeros)
        return _scaled(drawn, matrix)

    def key_of_new_people(self, rank: int) -> str:
        """Return the key that the noise of new people follows from, with their entries."""
        return f"{self._settings(rank)} {self.secret}"

    def of_people(self, problem: Problem, fit: Fit) -> Tensor:
        """Return `matrix` for the people of a fit without noise, in the metric of this noise."""
        like = problem.penalized_rows(fit.cp.factors[problem.mode])
        basis = self.matrix(like, problem.team)
        if not self.cheapest:
            return basis
        factors = tuple(factor.unsqueeze(0) for factor in fit.cp.factors)
        gram = Decomposition(problem, factors).block.mean_gram[0].to(basis)
        costs: Tensor
        directions: Tensor
        costs, directions = torch.linalg.eigh(basis @ gram @ basis.mT)
        limits = torch.finfo(costs.dtype)
        costs = costs.clamp_min(max(limits.eps * float(costs.max()), limits.tiny))
        shares = (costs.mean() / costs).sqrt().clamp_max(max(1.0, 1 / self.level))
        # A symmetric matrix does not depend on the signs of the directions.
        found: Tensor = (directions * shares) @ directions.mT @ basis
        return found

    def matrix(self, like: Tensor, team: Team = ALONE) -> Tensor:
        """Return what standard normal rows are multiplied with, shape (rank, rank).

        Args:
            like: Penalized training rows without noise, which set its covariance.
            team: All processes that have some of them.
        """
        return self.level * spread_basis(like, team)

    def _of_training(
        self, rows: Tensor, mode: int, matrix: Tensor, share: Share | None = None
    ) -> Tensor:
        """Return the noise of the training rows of a mode."""
        return self._drawn(rows, (mode,), matrix, share)

    def _of_shifts(self, shifts: Tensor, matrices: Sequence[Tensor], share: Share | None) -> Tensor:
        """Return the noise of the shifts, independent of that of the rows.

        Args:
            shifts: The shifts.
            matrices: Those of the noise of the rows, and of the shifts as if they were rows: shifts
                far larger than the rows would tell more of them than smaller ones.
            share: The people of this process; None for everybody.
        """
        drawn = (self._drawn(shifts, (*SHIFTS_KEY, k), m, share) for k, m in enumerate(matrices))
        return SHARE_OF_SHIFTS * sum(drawn, torch.zeros_like(shifts))

    def _settings(self, rank: int) -> str:
        """Return all settings that noise follows from, as text."""
        strength = None if self.strength is None else float(self.strength)
        found = f"{self.seed} {float(self.level)!r} {strength!r} {rank}"
        return f"{found} {self.method}" if self.method else found

    def _drawn(
        self, rows: Tensor, key: tuple[int, ...], matrix: Tensor, share: Share | None
    ) -> Tensor:
        """Return noise that follows from the seed, the secret and a key.

        It is drawn for everybody, so that it does not depend on the number of processes.
        """
        entropy = [*self._settings(rows.shape[-1]).encode(), *self.secret.encode()]
        random = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
        shape = tuple(rows.shape) if share is None else (share.people, *rows.shape[1:])
        drawn = random.standard_normal(shape)
        if share is not None:
            drawn = drawn[share.places]
        return _scaled(drawn, matrix.to(rows.device)).to(rows)


def _scaled(drawn: NDArray[np.float64], matrix: Tensor) -> Tensor:
    """Return standard normal rows times a matrix."""
    return torch.from_numpy(drawn).to(matrix) @ matrix


def _with_shifts(problem: Problem, fit: Fit) -> Fit:
    """Return a fit without noise with its shifts, if it has plain rows."""
    if fit.plain is None:
        return fit
    return replace(fit, shifts=fit.cp.factors[problem.mode] - fit.plain)


def describe_noise(level: float, fit: Fit) -> str:
    """Return what noise of this size has cost a fit, as a line of text."""
    before = fit.before_noise.residual
    return f"noise {level:g} of the spread: residual {before:.4f} -> {fit.residual:.4f}"
