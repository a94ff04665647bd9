"""Starts for losses with a link: least squares to the entries on the scale of the link."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.losses import Squared
from parafair.solvers.block import BlockDescent
from parafair.solvers.compression import compressed_fits
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop
from parafair.team import ALONE

# A start need not have converged.
STOP = Stop(max_iter=60, tol=1e-3, window=5)

# Share of observed entries from which on missing ones are filled in.
FEW_MISSING = 0.5


def linked_starts(problem: Problem, starts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return decompositions of the entries on the scale of the link, as starts.

    With the squared error, these are the given starts.

    Args:
        problem: The problem.
        starts: One factor (batch, size, rank) per mode.
    """
    if problem.is_squared:
        return starts
    linked = replace(
        problem,
        data=linked_data(problem),
        loss=Squared(),
        offsets=None,
        penalty=None,
        sensitive=None,
        other_sensitive={},
    )
    # On the scale of a link, components have entries of both signs. From positive factors, least
    # squares ends in poor local optima.
    starts = tuple(
        factor - (problem.team if mode == problem.mode else ALONE).mean(factor)[0]
        for mode, factor in enumerate(starts)
    )
    try:
        fits = compressed_fits(linked, starts, stop=STOP)
        if fits is None:
            fits = solve_single(linked, BlockDescent(), starts=starts, stop=STOP)
    except Interrupted as interruption:
        # Its fit is not one of this problem.
        raise KeyboardInterrupt("while starts were computed") from interruption
    factors = (fit.cp.factors for fit in fits)
    return tuple(torch.stack(mode) for mode in zip(*factors, strict=True))


def linked_data(problem: Problem) -> TensorData:
    """Return the entries on the scale of the link, without the intercepts.

    If few entries of a dense tensor are missing, they have the mean of the others: without missing
    entries, least squares is several times as fast, and this is only a start.
    """
    linked = problem.data.with_values(problem.loss.linked(problem.data.values))
    if problem.offsets is not None:
        linked = problem.offsets.subtract(linked)
    if linked.is_sparse or problem.count / prod(problem.shape) < FEW_MISSING:
        return linked
    own = torch.stack([linked.values.nansum(), (~linked.values.isnan()).sum()])
    total, count = problem.team.sum(own.double())
    return linked.with_values(linked.values.nan_to_num(float(total / count)))
