"""Huber's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from parafair.arguments import real_number
from parafair.losses.kinds import Numbers

# The best constant is found by so many steps of reweighted least squares.
STEPS = 50


@dataclass(frozen=True)
class Huber(Numbers):
    """Squared error up to `delta`, and growing linearly beyond: few wild entries do little harm.

    The deviance is ``r**2`` or ``2 delta |r| - delta**2`` with ``r = x - m``.

    Attributes:
        delta: Errors up to this count fully, in the units of the data.
    """

    delta: float = 1.0

    name: ClassVar[str] = "huber"
    measure: ClassVar[str] = "loss ratio"

    def __post_init__(self) -> None:
        real_number("delta", self.delta, above=0)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return half the loss, and the error cut off at `delta`."""
        error = model - values
        slope = error.clamp(-self.delta, self.delta)
        return slope * (error - slope / 2), slope

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``min(1, delta / |r|)``."""
        return self.delta / (model - values).abs().clamp_min(self.delta)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return `weight`: the second derivative of large errors is zero."""
        return self.weight(values, model)

    def constant(self, values: Tensor) -> float:
        """Return Huber's location, from the median."""
        entries = values.double().flatten()
        found = entries.median()
        for _ in range(STEPS):
            weight = self.weight(entries, found)
            found = (weight * entries).sum() / weight.sum()
        return float(found)
