"""Counts, as sums of non-negative components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from parafair.losses.base import LEAST_MEAN
from parafair.losses.kinds import Additive, Counts


@dataclass(frozen=True)
class PoissonIdentity(Additive, Counts):
    """``m - x ln(m)``: counts with mean and variance ``m``, for non-negative factors.

    Components add up, and the sum of ``m`` over all cells is a product of column sums: Chi and
    Kolda, "On tensors, sparsity, and nonnegative factorizations", 2012. Below a mean of
    `LEAST_MEAN`, the logarithm is continued by its tangent.
    """

    name: ClassVar[str] = "poisson-identity"

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative."""
        rate = model.clamp_min(LEAST_MEAN)
        ratio = values / rate
        return model - values * rate.log() - ratio * (model - rate), 1 - ratio

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``x / m**2``."""
        return values / model.clamp_min(LEAST_MEAN).square()

    def mean(self, model: Tensor) -> Tensor:
        """Return the model; zero instead of less."""
        return model.clamp_min(0.0)

    def constant(self, values: Tensor) -> float:
        """Return the mean."""
        return max(float(values.double().mean()), LEAST_MEAN)
