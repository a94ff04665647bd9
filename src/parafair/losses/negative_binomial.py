"""Counts that vary more than Poisson's."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

from torch import Tensor

from parafair.arguments import real_number
from parafair.losses import logistic
from parafair.losses.kinds import Counts, exponential


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """``(r + x) ln(1 + e**m) - x m``: counts with a variance above their mean.

    The mean is ``mu = r e**m`` and the variance ``mu + mu**2 / r``.

    Attributes:
        shape: ``r``; the larger, the closer to Poisson.
    """

    shape: float = 1.0

    name: ClassVar[str] = "negative-binomial"
    monotone: ClassVar[bool] = True
    at_zero: ClassVar[tuple[float, float] | None] = None

    def __post_init__(self) -> None:
        real_number("shape", self.shape, above=0)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative."""
        return logistic.value_and_slope(self.shape + values, values, model)

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return Jaakkola and Jordan's weight, ``r + x`` times."""
        return logistic.weight(self.shape + values, model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``(r + x) p (1 - p)``."""
        return logistic.curvature(self.shape + values, model)

    def saturated(self, values: Tensor) -> Tensor:
        """Return the loss at ``mu = x``."""
        return logistic.entropy(self.shape + values, values)

    def mean(self, model: Tensor) -> Tensor:
        """Return expected counts."""
        return self.shape * exponential(model)

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return logarithms half way to the mean."""
        return ((values + mean) / (2 * self.shape)).log()

    def constant(self, values: Tensor) -> float:
        """Return the logarithm of the mean over ``r``."""
        return log(float(values.double().mean()) / self.shape)
