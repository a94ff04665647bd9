"""Counts, as sums of non-negative components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from parafair.losses.base import LEAST_MEAN
from parafair.losses.poisson import is_count


@dataclass(frozen=True)
class PoissonIdentity:
    """``m - x ln(m)``: counts with mean and variance ``m``, for non-negative factors.

    Components add up, and the sum of ``m`` over all cells is a product of column sums: Chi and
    Kolda, "On tensors, sparsity, and nonnegative factorizations", 2012. Below a mean of
    `LEAST_MEAN`, the logarithm is continued by its tangent.
    """

    name: ClassVar[str] = "poisson-identity"
    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "whole numbers of at least 0"
    remedy: ClassVar[str] = "use loss='gamma' if all entries are positive, or 'squared' for any"
    monotone: ClassVar[bool] = False
    at_zero: ClassVar[tuple[float, float] | None] = (1.0, 0.0)
    non_negative: ClassVar[bool] = True

    @property
    def bound(self) -> None:
        """The curvature has no bound near a mean of zero."""
        return None

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are counts."""
        return is_count(values)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative."""
        rate = model.clamp_min(LEAST_MEAN)
        ratio = values / rate
        return model - values * rate.log() - ratio * (model - rate), 1 - ratio

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative: zeros have none."""
        return self.curvature(values, model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``x / m**2``."""
        return values / model.clamp_min(LEAST_MEAN).square()

    def saturated(self, values: Tensor) -> Tensor:
        """Return the loss at a mean of ``x``."""
        return values - values.xlogy(values)

    def mean(self, model: Tensor) -> Tensor:
        """Return the model; zero instead of less."""
        return model.clamp_min(0.0)

    def linked(self, values: Tensor) -> Tensor:
        """Return the entries."""
        return values

    def constant(self, values: Tensor) -> float:
        """Return the mean."""
        return max(float(values.double().mean()), LEAST_MEAN)
