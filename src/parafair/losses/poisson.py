"""Counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.kinds import Counts, exponential


@dataclass(frozen=True)
class Poisson(Counts):
    """``e**m - x m``: counts with mean and variance ``e**m``."""

    name: ClassVar[str] = "poisson"
    monotone: ClassVar[bool] = False
    at_zero: ClassVar[tuple[float, float] | None] = None

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood, up to a constant, and its derivative.

        The value of a model that overflows is infinite: a solver takes a shorter step.
        """
        rate = model.exp()
        return torch.addcmul(rate, values, model, value=-1), rate - values

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the rate, as in Fisher's scoring."""
        return model.exp()

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the rate."""
        return model.exp()

    def mean(self, model: Tensor) -> Tensor:
        """Return rates."""
        return exponential(model)

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return logarithms half way to the mean."""
        return ((values + mean) / 2).log()

    def constant(self, values: Tensor) -> float:
        """Return the logarithm of the mean."""
        return log(float(values.double().mean()))
