"""Noise at the resolution of the criterion: released rows have no finer differences.

A penalty does not see differences between people that are far smaller than its finest bandwidth.
They cost it nothing, so a fit may contain them, and an attacker such as a tree finds them. Noise of
that size hides them. It is Gaussian, and its covariance is a multiple of that of the rows.

Training people get noise once per fit. New people get noise of their own: a copy of a training
person's noise would tell which training person is near, and with that the sensitive features.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import real_number
from parafair.data.tensor_data import TensorData
from parafair.dependence.whitening import spread_basis
from parafair.errors import warn
from parafair.model.draws import normals_of_people
from parafair.penalties import NoisyPenalty
from parafair.solvers.fitting import fill_empty
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit

# More noise than this leaves nothing of an embedding.
MOST_NOISE = 10.0


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


def warn_without_noise(
    noise: float, penalty: object, strength: float | None, *, stacklevel: int
) -> None:
    """Warn if a fit has no noise although its method has some by default.

    Args:
        noise: The noise of the fit.
        penalty: Its penalty.
        strength: The strength of the penalty.
        stacklevel: As in `warn`.
    """
    usual = default_noise(penalty, strength)
    if usual and not noise:
        warn(
            f"with noise={noise:g}, differences far below the resolution of the criterion stay in "
            "the embedding; the penalty does not see them, and they can reveal the group. Omit "
            f"noise for the default of {usual:g}, or audit the embedding before use",
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
    """

    level: float
    seed: int
    secret: str = field(repr=False)

    def release(self, problem: Problem, fit: Fit) -> Fit:
        """Return a finished fit with noise in every mode with sensitive features.

        The noise depends on the seed, on the data and on the covariance of the penalized rows, not
        on the initial factors. Without the data nobody can draw it again, even if the seed is
        known. Rows without observed entries are the mean of the other rows, as before.

        Args:
            problem: The problem that was solved; of one member, if it has several strengths.
            fit: The fit, without noise.
        """
        if not self.level or not problem.sensitive_modes:
            return fit
        noiseless = {mode: fit.cp.factors[mode] for mode in problem.sensitive_modes}
        factors = list(fit.cp.factors)
        entropy = [self.seed, *self.secret.encode()]
        for mode, rows in noiseless.items():
            random = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(mode,)))
            drawn = random.standard_normal(tuple(rows.shape))
            factors[mode] = rows + self._scaled(drawn, like=problem.penalized_rows(rows, mode))
        cp = fill_empty(problem, CPTensor.from_factors(factors))
        if not all(torch.isfinite(factor).all() for factor in cp.factors):
            return fit  # a diverged fit with entries near the largest number
        people = noiseless.pop(problem.mode)
        released = fit.with_factors(problem, cp.factors)
        return replace(released, noiseless=people, noiseless_others=noiseless)

    def of_new_people(self, data: TensorData, mode: int, like: Tensor) -> Tensor:
        """Return noise for each new person, shape (people, rank).

        The noise of a person depends on the seed, the secret and that person's entries alone. So it
        does not depend on the other people, and embedding a person again does not average it out.
        People with equal entries have equal noise.

        Args:
            data: Entries of the new people, as they were given.
            mode: The mode of the people.
            like: Penalized training rows without noise, which set its covariance.
        """
        key = f"{self.seed} {self.secret}"
        drawn = normals_of_people(data, mode, like.shape[-1], key=key)
        return self._scaled(drawn, like=like)

    def matrix(self, like: Tensor) -> Tensor:
        """Return what standard normal rows are multiplied with, shape (rank, rank).

        Args:
            like: Penalized training rows without noise, which set its covariance.
        """
        return self.level * spread_basis(like)

    def _scaled(self, drawn: NDArray[np.float64], like: Tensor) -> Tensor:
        """Return standard normal rows with a multiple of the covariance of others."""
        basis = spread_basis(like)
        return (self.level * torch.from_numpy(drawn).to(basis) @ basis).to(like)


def describe_noise(level: float, fit: Fit) -> str:
    """Return what noise of this size has cost a fit, as a line of text."""
    before = fit.before_noise.residual
    return f"noise {level:g} of the spread: residual {before:.4f} -> {fit.residual:.4f}"
