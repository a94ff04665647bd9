"""The ridge: shrinkage of rows with few entries, in units of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, product_of
from parafair.team import ALONE, Team

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


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


def shrinkage(factors: Factors, problem: Problem) -> Tensor:
    """Return the value of the ridge of a problem in double precision, shape (batch,)."""
    doubles = [factor.double() for factor in factors]
    own = ridge_diagonal(doubles, problem.mode, problem.mode, problem.ridge)
    if own is None:
        return factors[0].new_zeros(len(factors[0]), dtype=torch.float64)
    squares = problem.team.sum(doubles[problem.mode].square().sum(-2))
    return (own * squares).sum(-1) / problem.count
