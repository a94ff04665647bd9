"""Yes or no, or a probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from parafair.losses import logistic
from parafair.losses.kinds import Events


@dataclass(frozen=True)
class Bernoulli(Events):
    """``ln(1 + e**m) - x m``: entries 0 and 1, with probability ``1 / (1 + e**-m)`` of a 1.

    Probabilities between 0 and 1 are entries too; the loss is then the cross-entropy. If no entry
    is missing, all weights are 1/4: Böhning and Lindsay, "Monotonicity of quadratic-approximation
    algorithms", 1988.
    """

    name: ClassVar[str] = "bernoulli"
    monotone: ClassVar[bool] = True
    at_zero: ClassVar[tuple[float, float] | None] = None

    @property
    def bound(self) -> float:
        """The largest curvature of the logistic curve."""
        return 0.25

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy and its derivative."""
        return logistic.value_and_slope(1.0, values, model)

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return Jaakkola and Jordan's weight."""
        return logistic.weight(1.0, model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``p (1 - p)``."""
        return logistic.curvature(1.0, model)

    def mean(self, model: Tensor) -> Tensor:
        """Return probabilities."""
        return model.sigmoid()

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return the log-odds half way to the mean."""
        return logistic.logit((values + mean) / 2)

    def constant(self, values: Tensor) -> float:
        """Return the log-odds of the mean."""
        return float(logistic.logit(values.double().mean()))
