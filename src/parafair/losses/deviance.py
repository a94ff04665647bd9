"""The deviance: twice the loss beyond that of a model that fits every entry."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from parafair.losses.base import Loss
from parafair.team import ALONE, Team

# When the search for the best constant of all processes ends.
MOST_STEPS, SMALLEST_STEP = 200, 1e-15


def deviances(loss: Loss, values: Tensor, model: Tensor) -> Tensor:
    """Return the deviance of each entry, in double precision."""
    values, model = values.double(), model.double()
    value = loss.value_and_slope(values, model)[0]
    return 2 * (value - loss.saturated(values)).clamp_min(0)


def null_deviance(loss: Loss, values: Tensor, *, zeros: int = 0, team: Team = ALONE) -> float:
    """Return the sum of the deviances of the best constant model.

    Args:
        loss: The loss; with zeros, its constant must be that of the mean.
        values: The entries of this process.
        zeros: Number of zeros beside them.
        team: All processes that have some of the entries; then there are no zeros.
    """
    entries = values.double()
    mean = entries.sum().reshape(1) / (entries.numel() + zeros)
    constant = loss.constant(mean) if zeros else best_constant(loss, entries, team)
    total = float(deviances(loss, entries, torch.full_like(entries, constant)).sum())
    if zeros:
        total += zeros * float(deviances(loss, 0 * mean, torch.full_like(mean, constant)))
    return team.add(total)


def best_constant(loss: Loss, values: Tensor, team: Team = ALONE) -> float:
    """Return the constant model that fits the entries of all processes best.

    Most losses need the mean alone. Newton's steps from there find the constant of others, such as
    Huber's.

    Args:
        loss: The loss.
        values: The entries of this process.
        team: All processes that have some of the entries.
    """
    if team.is_alone:
        return loss.constant(values)
    entries = values.double()
    total, count = team.sum(torch.stack([entries.sum(), entries.new_tensor(entries.numel())]))
    found = loss.constant((total / count).reshape(1))
    for _ in range(MOST_STEPS):
        model = torch.full_like(entries, found)
        slope = loss.value_and_slope(entries, model)[1].sum()
        slope, curvature = team.sum(torch.stack([slope, loss.curvature(entries, model).sum()]))
        step = float(slope / curvature)
        if not isfinite(step):
            break
        found -= step
        if abs(step) <= SMALLEST_STEP * (1 + abs(found)):
            break
    return found
