"""The squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Squared:
    """``(x - m)**2``, for numbers of any kind."""

    name: ClassVar[str] = "squared"
    measure: ClassVar[str] = "relative residual"
    allowed: ClassVar[str] = "numbers"
    remedy: ClassVar[str] = "drop them"
    monotone: ClassVar[bool] = True
    at_zero: ClassVar[tuple[float, float] | None] = (0.0, 0.5)

    @property
    def bound(self) -> float:
        """The squares are the loss."""
        return 1.0

    def accepts(self, values: Tensor) -> Tensor:
        """Return True everywhere."""
        return torch.ones_like(values, dtype=torch.bool)

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

    def saturated(self, values: Tensor) -> Tensor:
        """Return 0."""
        return torch.zeros_like(values)

    def mean(self, model: Tensor) -> Tensor:
        """Return the model."""
        return model

    def linked(self, values: Tensor) -> Tensor:
        """Return the entries."""
        return values

    def constant(self, values: Tensor) -> float:
        """Return the mean."""
        return float(values.double().mean())
