"""A loss that is no squared error as a function of one factor: weighted squares that touch it."""

from __future__ import annotations

from torch import Tensor

from parafair.algebra.cp_tensor import Factors, cross_gram, gram
from parafair.algebra.least_squares import Squares
from parafair.algebra.row_grams import RowGrams
from parafair.solvers.deviance import Deviance
from parafair.team import ALONE


def tangent_squares(
    deviance: Deviance,
    factors: Factors,
    mode: int,
    damping: Tensor | None = None,
    *,
    fixed: Factors | None = None,
) -> Squares:
    """Return the deviance near the current factor of a mode, as least squares.

    With slope ``s_i`` and weighted Gram matrices ``G_i`` at the current rows ``a_i`` it is

        constant + sum_i (a_i G_i a_i - 2 a_i m_i)        with        m_i = G_i a_i - s_i,

    which has the value and the gradient of the loss there. If the loss is monotone, it is nowhere
    below it. If its weights have a bound and no entry is missing, all rows share one matrix.

    Args:
        deviance: The deviance.
        factors: Each (batch, size, rank).
        mode: The mode.
        damping: Multiples of the weights, shape (batch,); None for 1.
        fixed: Further components; None for those of the deviance.
    """
    loss, factor, rank = deviance.loss, factors[mode], factors[mode].shape[-1]
    team = ALONE if mode == deviance.mode else deviance.team
    shared = loss.bound is not None and deviance.is_complete
    value, slope, triangles = deviance.entries.slope_and_grams(
        loss,
        None if shared else loss.weight,
        factors,
        deviance.fixed if fixed is None else fixed,
        mode,
    )
    known = deviance.own_saturated if team.is_alone else deviance.saturated
    more = 1.0 if damping is None else damping[:, None, None]
    if triangles is None:
        assert loss.bound is not None
        value, slope = team.sums([value, slope])
        grams = [gram(each) for each in factors]
        grams[deviance.mode] = team.sum(grams[deviance.mode])
        own = cross_gram(grams, mode) * (loss.bound * more)
        product = factor @ own
        weighted: Tensor | RowGrams = own
    else:
        value, slope, triangles = team.sums([value, slope, triangles])
        weighted = RowGrams.of(triangles * more, rank)
        product = weighted.products(factor)
    target = product - slope
    inner = ((product - 2 * target).double() * factor.double()).sum((-2, -1))
    return Squares(target, weighted, (2 * (value - known)).clamp_min(0) - inner)
