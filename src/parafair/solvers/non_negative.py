"""Non-negative factors: which modes have them, and the directions that keep them so."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.arguments import items
from parafair.data.checks import first_of
from parafair.data.tensor_data import TensorData
from parafair.team import Team

# Entries below this share of the root mean square of their column count as zero, if the objective
# falls towards zero: otherwise they would shorten every step.
NEAR = 1e-6


def check_non_negative(data: TensorData, modes: Sequence[int]) -> None:
    """Raise unless these are modes of the data, whose entries they can describe."""
    for mode in items("non_negative", modes, "modes"):
        data.find_mode(mode)
    if set(modes) != set(range(data.order)):
        return
    below = data.values < 0
    if below.any():
        raise ValueError(
            "X must have no negative entries if all factors are non_negative, got "
            f"{first_of(data, below)}; name the modes that are to be non-negative, such as "
            "non_negative=(0,), or leave non_negative out"
        )


def project(modes: Sequence[int], factors: Factors) -> tuple[Tensor, ...]:
    """Return the factors with zero for each negative entry of these modes."""
    return tuple(f.clamp_min(0.0) if mode in modes else f for mode, f in enumerate(factors))


def held(
    modes: Sequence[int], factors: Factors, gradients: Factors, teams: Sequence[Team]
) -> tuple[Tensor, ...]:
    """Return where entries are at zero, or near, and the objective falls below zero.

    Args:
        modes: The modes with non-negative factors.
        factors: Each (batch, size, rank).
        gradients: Those of the objective, of the same shapes.
        teams: For each mode, the processes that have some of its rows.
    """
    found = []
    for mode, (factor, gradient, team) in enumerate(zip(factors, gradients, teams, strict=True)):
        near = factor <= NEAR * team.mean(factor.square())[0].sqrt()
        own = near & (gradient > 0)
        found.append(own if mode in modes else torch.zeros_like(own))
    return tuple(found)
