"""Yes or no: whether one of several things happened."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.base import INSIDE, LEAST_MEAN
from parafair.losses.kinds import Additive, Events


@dataclass(frozen=True)
class BernoulliPoisson(Additive, Events):
    """``(1 - x) m - x ln(1 - e**-m)``: events with probability ``1 - e**-m``, ``m`` not negative.

    An event is a Poisson count of mean ``m`` that is not zero, so components add up. The loss of a
    zero is ``m``, whose sum over all cells is a product of column sums: Zhou, "Infinite edge
    partition models for overlapping community detection and link prediction", 2015. Below
    `LEAST_MEAN`, the logarithm is continued by its tangent.
    """

    name: ClassVar[str] = "bernoulli-poisson"

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy and its derivative."""
        rate = model.clamp_min(LEAST_MEAN)
        ratio = values / rate.expm1()
        value = (1 - values) * model - values * (-(-rate).expm1()).log() - ratio * (model - rate)
        return value, 1 - values - ratio

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return ``x / (4 sinh(m / 2)**2)``."""
        half = model.clamp(LEAST_MEAN, torch.finfo(model.dtype).max ** 0.1) / 2
        return values / (2 * half.clamp_max(40.0).sinh()).square()

    def mean(self, model: Tensor) -> Tensor:
        """Return probabilities."""
        return -(-model.clamp_min(0.0)).expm1()

    def constant(self, values: Tensor) -> float:
        """Return the model whose probability is the mean."""
        mean = min(max(float(values.double().mean()), LEAST_MEAN), 1 - INSIDE)
        return -log1p(-mean)
