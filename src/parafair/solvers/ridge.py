"""The ridge: shrinkage of rows with few entries, in units of entries."""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, product_of
from parafair.team import ALONE, Team


def ridge_diagonal(
    factors: Factors, mode: int, people: int, ridge: float, team: Team = ALONE
) -> Tensor | None:
    """Return the ridge's diagonal in the Gram matrices of a mode, shape (..., rank).

    Args:
        factors: Each (..., size, rank).
        mode: The mode.
        people: That of the people.
        ridge: The ridge.
        team: All processes that have some of the people.
    """
    if not ridge:
        return None
    means = {
        other: (team if other == people else ALONE).mean(factor.square())
        for other, factor in enumerate(factors)
        if other != mode
    }
    share = 1.0 if mode == people else means[people][1] / factors[mode].shape[-2]
    return ridge * share * product_of([mean.squeeze(-2) for mean, _ in means.values()])


def ridge_value(factors: Factors, people: int, ridge: float, team: Team = ALONE) -> Tensor:
    """Return the squared error on the ridge's extra entries, in double precision, (batch,)."""
    doubles = [factor.double() for factor in factors]
    own = ridge_diagonal(doubles, people, people, ridge)
    if own is None:
        return factors[0].new_zeros(len(factors[0]), dtype=torch.float64)
    return (own * team.sum(doubles[people].square().sum(-2))).sum(-1)
