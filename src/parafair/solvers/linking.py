"""Starts for losses with a link: least squares to the entries on the scale of the link."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.losses import Squared, needs_non_negative
from parafair.solvers.block import BlockDescent
from parafair.solvers.compression import compressed_fits
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

# A start need not have converged.
STOP = Stop(max_iter=60, tol=1e-3, window=5)

# Share of observed entries from which on missing ones are filled in.
FEW_MISSING = 0.5

# Entries of non-negative starts are at least this share of their mean.
LEAST = 1e-2


def linked_starts(problem: Problem, starts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return decompositions of the entries on the scale of the link, as starts.

    With the squared error, these are the given starts.

    Args:
        problem: The problem.
        starts: One factor (batch, size, rank) per mode.
    """
    if problem.is_squared or (problem.non_negative and not needs_non_negative(problem.loss)):
        # Logarithms and log-odds have both signs, which non-negative factors cannot describe.
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
    if not problem.constrained:
        # On the scale of a link, components have entries of both signs. From positive factors,
        # least squares ends in poor local optima.
        starts = tuple(factor - factor.mean(-2, keepdim=True) for factor in starts)
    try:
        fits = compressed_fits(linked, starts, stop=STOP)
        if fits is None:
            fits = solve_single(linked, BlockDescent(), starts=starts, stop=STOP)
    except Interrupted as interruption:
        # Its fit is not one of this problem.
        raise KeyboardInterrupt("while starts were computed") from interruption
    factors = (fit.cp.factors for fit in fits)
    found = tuple(torch.stack(mode) for mode in zip(*factors, strict=True))
    if needs_non_negative(problem.loss):
        return tuple(map(_inside, found))
    plain = problem.offsets is None and problem.structure is None
    return _with_level(problem, found) if problem.data.zeros_count and plain else found


def linked_data(problem: Problem) -> TensorData:
    """Return the entries on the scale of the link, without the intercepts.

    If few entries of a dense tensor are missing, they have the mean of the others: without missing
    entries, least squares is several times as fast, and this is only a start.
    """
    if problem.data.zeros_count:
        # Beyond the link of a zero, so that zeros stay zeros.
        values = problem.loss.linked(_with_zero(problem))
        return problem.data.with_values(values[1:] - values[0])
    linked = problem.data.with_values(problem.loss.linked(problem.data.values))
    if problem.offsets is not None:
        linked = problem.offsets.subtract(linked)
    if linked.is_sparse or linked.coverage < FEW_MISSING:
        return linked
    return linked.with_values(linked.values.nan_to_num(float(linked.values.nanmean())))


def _with_zero(problem: Problem) -> Tensor:
    """Return a zero before the listed entries."""
    values = problem.data.values
    return torch.cat([values.new_zeros(1), values])


def _with_level(problem: Problem, factors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return factors whose smallest component is the link of a zero, everywhere.

    Args:
        problem: A problem whose absent entries are zeros.
        factors: Each (batch, size, rank).
    """
    if factors[0].shape[-1] < 2:
        return factors
    level = float(problem.loss.linked(_with_zero(problem))[0])
    sizes = torch.stack([factor.square().sum(-2) for factor in factors]).prod(0)
    smallest = torch.nn.functional.one_hot(sizes.argmin(-1), sizes.shape[-1]).bool().unsqueeze(-2)
    found = [factor.where(~smallest, 1.0) for factor in factors]
    found[problem.mode] = factors[problem.mode].where(~smallest, level)
    return tuple(found)


def _inside(factor: Tensor) -> Tensor:
    """Return a non-negative factor without zeros, where no mean of an entry is zero."""
    return factor.clamp_min(LEAST * float(factor.mean()) + torch.finfo(factor.dtype).tiny)
