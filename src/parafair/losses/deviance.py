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


def null_deviance(loss: Loss, values: Tensor) -> float:
    """Return the sum of the deviances of the best constant model."""
    entries = values.double()
    constant = torch.full_like(entries, loss.constant(entries))
    return float(deviances(loss, entries, constant).sum())
