"""Yes or no: whether one of several things happened."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.base import INSIDE, LEAST_MEAN
from parafair.losses.logistic import entropy


@dataclass(frozen=True)
class BernoulliPoisson:
    """``(1 - x) m - x ln(1 - e**-m)``: events with probability ``1 - e**-m``, ``m`` not negative.

    An event is a Poisson count of mean ``m`` that is not zero, so components add up. The loss of a
    zero is ``m``, whose sum over all cells is a product of column sums: Zhou, "Infinite edge
    partition models for overlapping community detection and link prediction", 2015. Below
    `LEAST_MEAN`, the logarithm is continued by its tangent.
    """

    name: ClassVar[str] = "bernoulli-poisson"
    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "0, 1 or a probability between them"
    remedy: ClassVar[str] = "code no as 0 and yes as 1, or use loss='squared'"
    monotone: ClassVar[bool] = False
    at_zero: ClassVar[tuple[float, float] | None] = (1.0, 0.0)
    non_negative: ClassVar[bool] = True

    @property
    def bound(self) -> None:
        """The curvature has no bound near a probability of zero."""
        return None

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are between 0 and 1."""
        return (values >= 0) & (values <= 1)

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy and its derivative."""
        rate = model.clamp_min(LEAST_MEAN)
        ratio = values / rate.expm1()
        value = (1 - values) * model - values * (-(-rate).expm1()).log() - ratio * (model - rate)
        return value, 1 - values - ratio

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative: zeros have none."""
        return self.curvature(values, model)

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``x / (4 sinh(m / 2)**2)``."""
        half = model.clamp(LEAST_MEAN, torch.finfo(model.dtype).max ** 0.1) / 2
        return values / (2 * half.clamp_max(40.0).sinh()).square()

    def saturated(self, values: Tensor) -> Tensor:
        """Return the entropy; 0 for 0 and 1."""
        return entropy(1.0, values)

    def mean(self, model: Tensor) -> Tensor:
        """Return probabilities."""
        return -(-model.clamp_min(0.0)).expm1()

    def linked(self, values: Tensor) -> Tensor:
        """Return the entries: the model of a small probability is close to it."""
        return values

    def constant(self, values: Tensor) -> float:
        """Return the model whose probability is the mean."""
        mean = min(max(float(values.double().mean()), LEAST_MEAN), 1 - INSIDE)
        return -log1p(-mean)
