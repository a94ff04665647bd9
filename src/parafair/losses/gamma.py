"""Positive numbers whose spread grows with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.kinds import exponential


@dataclass(frozen=True)
class Gamma:
    """``m + x e**-m``: positive numbers with mean ``e**m`` and a constant coefficient of variation.

    Times, prices and amounts are often of this kind.
    """

    name: ClassVar[str] = "gamma"
    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "numbers above 0"
    remedy: ClassVar[str] = "leave zeros out as missing, or use loss='squared'"
    monotone: ClassVar[bool] = False

    @property
    def bound(self) -> float:
        """The expected curvature, as in Fisher's scoring; it is the same for every entry."""
        return 1.0

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are positive."""
        return values > 0

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative."""
        ratio = values * (-model).exp()
        return model + ratio, 1 - ratio

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(model)

    def saturated(self, values: Tensor) -> Tensor:
        """Return the loss at a mean of ``x``."""
        return 1 + values.log()

    def mean(self, model: Tensor) -> Tensor:
        """Return expected values."""
        return exponential(model)

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return logarithms."""
        return values.log()

    def constant(self, values: Tensor) -> float:
        """Return the logarithm of the mean."""
        return log(float(values.double().mean()))
