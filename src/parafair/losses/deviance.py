"""The deviance: twice the loss beyond that of a model that fits every entry."""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.losses.base import Loss


def deviances(loss: Loss, values: Tensor, model: Tensor) -> Tensor:
    """Return the deviance of each entry, in double precision."""
    values, model = values.double(), model.double()
    value = loss.value_and_slope(values, model)[0]
    return 2 * (value - loss.saturated(values)).clamp_min(0)


def null_deviance(loss: Loss, values: Tensor, *, zeros: int = 0) -> float:
    """Return the sum of the deviances of the best constant model.

    Args:
        loss: The loss; with zeros, its constant must be that of the mean.
        values: The entries.
        zeros: Number of zeros beside them.
    """
    entries = values.double()
    mean = entries.sum().reshape(1) / (entries.numel() + zeros)
    constant = loss.constant(mean if zeros else entries)
    total = float(deviances(loss, entries, torch.full_like(entries, constant)).sum())
    if zeros:
        total += zeros * float(deviances(loss, 0 * mean, torch.full_like(mean, constant)))
    return total
