"""The squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.kinds import Numbers


@dataclass(frozen=True)
class Squared(Numbers):
    """``(x - m)**2``, for numbers of any kind."""

    name: ClassVar[str] = "squared"
    measure: ClassVar[str] = "relative residual"
    at_zero: ClassVar[tuple[float, float] | None] = (0.0, 0.5)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return half the squared error, and the error."""
        error = model - values
        return error.square() / 2, error

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(model)

    def constant(self, values: Tensor) -> float:
        """Return the mean."""
        return float(values.double().mean())
