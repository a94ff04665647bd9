"""Starts for losses with a link: least squares to the entries on the scale of the link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import khatri_rao, stack_factors
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.losses import Squared, needs_non_negative
from parafair.solvers.block import BlockDescent
from parafair.solvers.compression import compressed_fits
from parafair.solvers.init import make_starts
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop
from parafair.team import Team

# A start need not have converged.
STOP = Stop(max_iter=60, tol=1e-3, window=5)

# CP decompositions where a Tucker decomposition may begin, and when rough fits end.
CP_STARTS, ROUGH = 5, Stop(max_iter=60, tol=1e-3, window=10)

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
    # Several processes have some of the people each, of whom CP fits would differ.
    if problem.structure is not None and problem.share is None:
        return structured_starts(problem, linked, starts)
    if not problem.constrained:
        # On the scale of a link, components have entries of both signs. From positive factors,
        # least squares ends in poor local optima.
        starts = tuple(
            factor - team.mean(factor)[0]
            for team, factor in zip(problem.teams, starts, strict=True)
        )
    found = _least_squares(linked, starts)
    if needs_non_negative(problem.loss):
        return tuple(map(_inside, found, problem.teams))
    plain = problem.offsets is None
    return _with_level(problem, found) if problem.data.zeros_count and plain else found


def _least_squares(linked: Problem, starts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the factors of rough fits of a problem with the squared error."""
    with _computing_starts():
        fits = compressed_fits(linked, starts, stop=STOP)
        fits = fits or solve_single(linked, BlockDescent(), starts=starts, stop=STOP)
        return stack_factors(fit.cp.factors for fit in fits)


@contextmanager
def _computing_starts() -> Iterator[None]:
    """Turn an interrupted fit into an interruption: it is not one of the problem."""
    try:
        yield
    except Interrupted as interruption:
        raise KeyboardInterrupt("while starts were computed") from interruption


def structured_starts(
    problem: Problem, linked: Problem, starts: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the best starts of a structured second factor: the given ones, and some of CP.

    From least squares on the scale of a link, fits with a structure often end in poor local optima,
    and CP decompositions less often: they are decompositions with this structure too. All
    candidates take rough fits with the loss itself, and as many as were given are kept.

    Args:
        problem: The problem.
        linked: The same with the entries on the scale of the link, and the squared error.
        starts: Rows and second factors, each (batch, size, rank).
    """
    count = len(starts[0])
    given = _least_squares(linked, starts)
    found = tuple(map(torch.cat, zip(given, _folded_starts(problem, linked, given), strict=True)))
    plain = replace(problem, penalty=None, sensitive=None, other_sensitive={})
    with _computing_starts():
        fits = solve_single(plain, LBFGS(), starts=found, stop=ROUGH)
    best = sorted(fits, key=lambda fit: fit.objective)[:count]
    return stack_factors(fit.cp.factors for fit in best)


def _folded_starts(
    problem: Problem, linked: Problem, given: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return CP decompositions of the folded entries, as starts.

    Columns beyond their rank are those of the first given start. Intercepts of cells are none that
    a CP decomposition has: with them, the entries are those on the scale of the link.
    """
    assert problem.structure is not None
    rank, sizes = min(problem.rank, *problem.structure.ranks), problem.structure.sizes
    own = problem if problem.offsets is None else linked
    folded = Problem(fold(own.data, sizes), rank, loss=own.loss, ridge=own.ridge)
    begin = linked_starts(folded, make_starts(folded, "uniform", count=CP_STARTS, seed=0))
    with _computing_starts():
        fits = solve_single(folded, LBFGS(), starts=begin, stop=ROUGH)
    rows, *others = stack_factors(fit.cp.factors for fit in fits)
    more = (factor[:1, :, rank:].expand(CP_STARTS, -1, -1) for factor in given)
    found = zip((rows, khatri_rao(others)), more, strict=True)
    return tuple(torch.cat(pair, -1) for pair in found)


def fold(data: TensorData, sizes: tuple[int, ...]) -> TensorData:
    """Return a matrix of people x cells as a tensor, with modes of these sizes for the cells."""
    shape = (data.shape[0], *sizes)
    if data.indices is None:
        return TensorData(data.values.unflatten(1, sizes))
    cells = torch.unravel_index(data.indices[1], sizes)
    indices = torch.stack([data.indices[0], *cells])
    return TensorData(data.values, indices, shape, absent=data.absent)


def linked_data(problem: Problem) -> TensorData:
    """Return the entries on the scale of the link, without the intercepts.

    If few entries of a dense tensor are missing, they have the mean of the others: without missing
    entries, least squares is several times as fast, and this is only a start.
    """
    if problem.data.zeros_count:
        # Beyond the link of a zero, so that zeros stay zeros.
        values = _linked_zeros(problem)
        return problem.data.with_values(values[1:] - values[0])
    values = problem.data.values
    linked = problem.data.with_values(problem.loss.linked(values, _mean(values, problem.team)))
    if problem.offsets is not None:
        linked = problem.offsets.subtract(linked)
    if linked.is_sparse or problem.count / prod(problem.shape) < FEW_MISSING:
        return linked
    mean = float(_mean(linked.values.double(), problem.team))
    return linked.with_values(linked.values.nan_to_num(mean))


def _mean(values: Tensor, team: Team) -> Tensor:
    """Return the mean of the observed entries of all processes."""
    if team.is_alone:
        return values.nanmean()
    total, count = team.sums([values.nansum().double(), (~values.isnan()).sum().double()])
    return (total / count).to(values)


def _linked_zeros(problem: Problem) -> Tensor:
    """Return a zero and the listed entries after it, on the scale of the link."""
    values = problem.data.values
    found = torch.cat([values.new_zeros(1), values])
    return problem.loss.linked(found, found.nanmean())


def _with_level(problem: Problem, factors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return factors whose smallest component is the link of a zero, everywhere.

    Args:
        problem: A problem whose absent entries are zeros.
        factors: Each (batch, size, rank).
    """
    if factors[0].shape[-1] < 2:
        return factors
    level = float(_linked_zeros(problem)[0])
    sizes = torch.stack([factor.square().sum(-2) for factor in factors]).prod(0)
    smallest = torch.nn.functional.one_hot(sizes.argmin(-1), sizes.shape[-1]).bool().unsqueeze(-2)
    found = [factor.where(~smallest, 1.0) for factor in factors]
    found[problem.mode] = factors[problem.mode].where(~smallest, level)
    return tuple(found)


def _inside(factor: Tensor, team: Team) -> Tensor:
    """Return a non-negative factor without zeros, where no mean of an entry is zero.

    Args:
        factor: The factor.
        team: All processes that have some of its rows.
    """
    mean = factor.mean()
    if not team.is_alone:
        mean = team.mean(factor)[0].mean()
    return factor.clamp_min(LEAST * float(mean) + torch.finfo(factor.dtype).tiny)
