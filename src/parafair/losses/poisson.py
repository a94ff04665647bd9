"""Counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Poisson:
    """``e**m - x m``: counts with mean and variance ``e**m``."""

    name: ClassVar[str] = "poisson"
    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "whole numbers of at least 0"
    remedy: ClassVar[str] = "use loss='gamma' if all entries are positive, or 'squared' for any"
    monotone: ClassVar[bool] = False
    at_zero: ClassVar[tuple[float, float] | None] = None

    @property
    def bound(self) -> None:
        """The curvature grows with the model."""
        return None

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are counts."""
        return is_count(values)

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

    def saturated(self, values: Tensor) -> Tensor:
        """Return the loss at a rate of ``x``."""
        return values - values.xlogy(values)

    def mean(self, model: Tensor) -> Tensor:
        """Return rates."""
        return exponential(model)

    def linked(self, values: Tensor) -> Tensor:
        """Return logarithms half way to the mean."""
        return ((values + values.nanmean()) / 2).log()

    def constant(self, values: Tensor) -> float:
        """Return the logarithm of the mean."""
        return log(float(values.double().mean()))


def is_count(values: Tensor) -> Tensor:
    """Return where values are whole numbers of at least 0."""
    return (values >= 0) & (values == values.round())


def exponential(model: Tensor) -> Tensor:
    """Return ``e**m``; the largest number instead of infinity."""
    return model.exp().clamp_max(torch.finfo(model.dtype).max)
