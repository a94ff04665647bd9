"""One majorize-minimize step on a factor with a penalty of unknown curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from parafair.algebra.least_squares import Block, NonNegativeBlock
from parafair.penalties import BoundInvariant, BoundPenalty
from parafair.team import ALONE, Team

# Maximum number of trials per step; each multiplies the curvature by 4.
MOST_TRIES = 20


# From a curvature to a factor, and the move in the coordinates of the curvature.
Step = Callable[[Tensor], tuple[Tensor, Tensor]]


class Iterate(NamedTuple):
    """A factor with the value and the gradient of the penalty."""

    factor: Tensor
    value: Tensor
    slope: Tensor


def majorize(
    block: Block, bound: BoundPenalty, point: Iterate, curvature: Tensor, team: Team = ALONE
) -> tuple[Iterate, Tensor, Tensor]:
    """Minimize the loss plus a quadratic model of the penalty, raised until it majorizes.

    Args:
        block: The loss.
        bound: The penalty.
        point: Where the step begins.
        curvature: That of the model, shape (batch,).
        team: All processes that have some of the rows; with several, `bound` is not invariant.

    Returns:
        The new point, the accepted curvature, and which members were accepted.
    """
    best, accepted = point, torch.zeros_like(curvature, dtype=torch.bool)
    if isinstance(block, NonNegativeBlock):
        step, slope = _non_negative_steps(block, bound, point)
    else:
        step, slope = _free_steps(block, bound, point)
    # Near the minimum, values differ only by rounding, which must not count as an increase.
    rounding = 4 * torch.finfo(curvature.dtype).eps * point.value.abs()
    for _ in range(MOST_TRIES):
        factor, move = step(curvature)
        trial = Iterate(factor, *bound.value_and_gradient(factor))
        along, square = team.sums([(slope * move).sum((-2, -1)), move.square().sum((-2, -1))])
        upper = point.value + along
        upper = upper + curvature / 2 * square
        good = (trial.value <= upper + rounding) & ~accepted
        best = Iterate(
            torch.where(good[:, None, None], trial.factor, best.factor),
            torch.where(good, trial.value, best.value),
            torch.where(good[:, None, None], trial.slope, best.slope),
        )
        accepted = accepted | good
        if accepted.all():
            break
        curvature = torch.where(accepted, curvature, curvature * 4)
    return best, curvature, accepted


def _free_steps(block: Block, bound: BoundPenalty, point: Iterate) -> tuple[Step, Tensor]:
    """Return the steps of a block, and the slope of the penalty in the coordinates of a move."""
    anchor, slope = point.factor, point.slope
    if not isinstance(bound, BoundInvariant):

        def step(curvature: Tensor) -> tuple[Tensor, Tensor]:
            factor = block.proximal(anchor, slope, curvature)
            return factor, factor - anchor

        return step, slope
    # In whitened coordinates the penalty has the same curvature in all directions. It does not
    # change if all rows are shifted, so the loss alone determines the mean.
    basis, mean = bound.basis(anchor), anchor.mean(-2, keepdim=True)
    whitened, slope = torch.linalg.solve(basis, anchor, left=False), slope @ basis.mT
    changed = block.change_basis(basis)

    def whitened_step(curvature: Tensor) -> tuple[Tensor, Tensor]:
        factor = changed.proximal(whitened, slope, curvature)
        move = factor - whitened
        move = move - move.mean(-2, keepdim=True)
        factor = factor @ basis
        deviations = factor - factor.mean(-2, keepdim=True)
        return deviations + block.best_mean(deviations + mean), move

    return whitened_step, slope


def _non_negative_steps(
    block: NonNegativeBlock, bound: BoundPenalty, point: Iterate
) -> tuple[Step, Tensor]:
    """Return the same for non-negative factors: distances are whitened, factors are not.

    All of a move counts as distance, its mean too: a shift could make rows negative.
    """
    basis = bound.basis(point.factor) if isinstance(bound, BoundInvariant) else None

    def step(curvature: Tensor) -> tuple[Tensor, Tensor]:
        factor = block.proximal(point.factor, point.slope, curvature, basis)
        move = factor - point.factor
        if basis is None:
            return factor, move
        move = torch.linalg.solve(basis, move, left=False)
        return factor, move - move.mean(-2, keepdim=True)

    return step, point.slope if basis is None else point.slope @ basis.mT
