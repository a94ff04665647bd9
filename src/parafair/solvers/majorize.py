"""One majorize-minimize step on a factor with a penalty of unknown curvature."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.penalties import BoundInvariant, BoundPenalty

# Maximum number of trials per step; each multiplies the curvature by 4.
MOST_TRIES = 20


class Iterate(NamedTuple):
    """A factor with the value and the gradient of the penalty."""

    factor: Tensor
    value: Tensor
    slope: Tensor


def majorize(
    block: Block, bound: BoundPenalty, point: Iterate, curvature: Tensor
) -> tuple[Iterate, Tensor, Tensor]:
    """Minimize the loss plus a quadratic model of the penalty, raised until it majorizes.

    Returns:
        The new point, the accepted curvature, and which members were accepted.
    """
    best, accepted = point, torch.zeros_like(curvature, dtype=torch.bool)
    basis, loss, mean = None, block, point.factor.mean(-2, keepdim=True)
    anchor, slope = point.factor, point.slope
    if isinstance(bound, BoundInvariant):
        # In whitened coordinates the penalty has the same curvature in all directions. It does not
        # change if all rows are shifted, so the loss alone determines the mean.
        basis = bound.basis(point.factor)
        block = block.change_basis(basis)
        anchor = torch.linalg.solve(basis, anchor, left=False)
        slope = slope @ basis.mT
    # Near the minimum, values differ only by rounding, which must not count as an increase.
    rounding = 4 * torch.finfo(curvature.dtype).eps * point.value.abs()
    for _ in range(MOST_TRIES):
        factor = block.proximal(anchor, slope, curvature)
        move = factor - anchor
        if basis is not None:
            move = move - move.mean(-2, keepdim=True)
            factor = factor @ basis
            deviations = factor - factor.mean(-2, keepdim=True)
            factor = deviations + loss.best_mean(deviations + mean)
        trial = Iterate(factor, *bound.value_and_gradient(factor))
        upper = point.value + (slope * move).sum((-2, -1))
        upper = upper + curvature / 2 * move.square().sum((-2, -1))
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
