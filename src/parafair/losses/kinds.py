"""What losses have in common: the entries that they are for, and components that add up."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from parafair.losses.logistic import entropy


class Numbers:
    """Losses of numbers of any kind, whose model is the number itself."""

    allowed: ClassVar[str] = "numbers"
    remedy: ClassVar[str] = "drop them"
    monotone: ClassVar[bool] = True

    @property
    def bound(self) -> float:
        """The curvature of the squared error, which no other one exceeds."""
        return 1.0

    def accepts(self, values: Tensor) -> Tensor:
        """Return True everywhere."""
        return torch.ones_like(values, dtype=torch.bool)

    def saturated(self, values: Tensor) -> Tensor:
        """Return 0."""
        return torch.zeros_like(values)

    def mean(self, model: Tensor) -> Tensor:
        """Return the model."""
        return model

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return the entries."""
        return values


class Events:
    """Losses of events: 0, 1 or a probability."""

    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "0, 1 or a probability between them"
    remedy: ClassVar[str] = "code no as 0 and yes as 1, or use loss='squared'"

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are between 0 and 1."""
        return (values >= 0) & (values <= 1)

    def saturated(self, values: Tensor) -> Tensor:
        """Return the entropy; 0 for 0 and 1."""
        return entropy(1.0, values)


class Counts:
    """Losses of counts, whose curvature has no bound."""

    measure: ClassVar[str] = "deviance ratio"
    allowed: ClassVar[str] = "whole numbers of at least 0"
    remedy: ClassVar[str] = "use loss='gamma' if all entries are positive, or 'squared' for any"

    @property
    def bound(self) -> None:
        """The curvature grows with the entry, or with the model."""
        return None

    def accepts(self, values: Tensor) -> Tensor:
        """Return where values are whole numbers of at least 0."""
        return (values >= 0) & (values == values.round())

    def saturated(self, values: Tensor) -> Tensor:
        """Return Poisson's loss at a mean of ``x``."""
        return values - values.xlogy(values)


class Additive:
    """Losses of non-negative factors whose components add up; the loss of a zero is ``m``.

    The sum of ``m`` over all cells is a product of column sums. Zeros have no curvature, and that
    of others has no bound near a model of zero.
    """

    monotone: ClassVar[bool] = False
    at_zero: ClassVar[tuple[float, float] | None] = (1.0, 0.0)
    non_negative: ClassVar[bool] = True

    @property
    def bound(self) -> None:
        """None: the curvature has no bound near a model of zero."""
        return None

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative."""
        raise NotImplementedError

    def weight(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative: zeros have none."""
        return self.curvature(values, model)

    def linked(self, values: Tensor, mean: Tensor) -> Tensor:
        """Return the entries: a small mean is close to its model."""
        return values


def exponential(model: Tensor) -> Tensor:
    """Return ``e**m``; the largest number instead of infinity."""
    return model.exp().clamp_max(torch.finfo(model.dtype).max)
