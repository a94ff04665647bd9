"""Decompositions without a penalty, where fits with one begin."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from torch import Tensor

from parafair.algebra.cells import MOST_CELLS
from parafair.algebra.cp_tensor import stack_factors
from parafair.errors import Interrupted
from parafair.losses import needs_non_negative
from parafair.solvers.block import BlockDescent
from parafair.solvers.compression import compressed_fits
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.loop import Counted, OnIteration, Solver
from parafair.solvers.precision import solve_single, solve_twice
from parafair.solvers.problem import Problem
from parafair.solvers.race import ROUNDS
from parafair.solvers.result import Fit, Stop, best
from parafair.solvers.steady import steadily

# Further starts of a compressed tensor, if there are several. On some data more than half of all
# starts end in a poor local optimum.
MORE_STARTS = 15

# Entries of a list from which on passes take longer than all else. In shorter ones, the rank
# decides which solver is faster.
LONG_LIST = 10**7

# Squared relative residual of a plain decomposition that counts as exact.
EXACT = 1e-8


def plain_solver(problem: Problem) -> Solver[Any]:
    """Return the faster solver of plain decompositions.

    Blocks of squared errors are exact. Those of other losses are not, and each of them needs a pass
    over the entries, which gives quasi-Newton steps the gradients of all factors. The blocks of a
    structured factor are slow if entries are missing. Side information holds the rows where they
    are while their factor is fixed, so blocks end in swamps. Those of a loss with the logarithm of
    a mean take far longer steps: near a mean of zero, its slope is steep. A pass over streamed data
    takes longer than the arithmetic, and blocks need four of them. The same is true of a very long
    list in so many cells that every Gram matrix takes sums over its entries.
    """
    if needs_non_negative(problem.loss):
        return BlockDescent()
    exact = problem.is_squared and problem.structure is None and problem.table is None
    listed = problem.data.is_sparse and not problem.data.zeros_count and not problem.non_negative
    scattered = listed and prod(problem.shape) // max(problem.shape) > MOST_CELLS
    long = scattered and problem.count >= LONG_LIST
    return LBFGS() if not exact or long or problem.data.is_streamed else BlockDescent()


def decompose_plain(
    problem: Problem,
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    each: int = 1,
    on_iteration: OnIteration | None = None,
) -> tuple[Fit, ...]:
    """Return decompositions without the penalty, each the best of several starts.

    Rough fits from all starts come first, to the compressed tensor if it becomes small.

    Args:
        problem: The problem; its penalty is ignored.
        starts: One factor (batch, size, rank) per mode.
        stop: When a fit stops.
        each: How many starts, one after the other, there are for every decomposition.
        on_iteration: Called after each iteration, as in `solve_batch`.
    """
    plain = replace(problem, penalty=None, other_sensitive={})
    counted, stop = Counted(on_iteration), replace(stop, enough=max(stop.enough, EXACT))
    try:
        with steadily(problem):
            rough = rough_fits(
                plain, starts=starts, stop=stop, each=each, on_iteration=counted.later()
            )
            if rough:
                starts = stack_factors([fit.cp.factors for fit in rough])
            return solve_twice(
                plain,
                plain_solver(problem),
                starts=starts,
                stop=stop,
                on_iteration=counted.later(),
            )
    except Interrupted as interruption:
        raise Interrupted(interruption.fit, strength=0.0) from interruption


def rough_fits(
    problem: Problem,
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    each: int,
    on_iteration: OnIteration | None = None,
) -> tuple[Fit, ...]:
    """Return the best rough fit of every decomposition; none if there is nothing to gain.

    Fits are to the compressed tensor, whose objectives they have, if it becomes small. A single
    start often ends in a poor local optimum, or seems to have converged on its way out of one.

    Args:
        problem: The problem, without a penalty.
        starts: One factor (batch, size, rank) per mode.
        stop: When a fit stops; those to the whole tensor stop earlier.
        each: How many starts, one after the other, there are for every decomposition.
        on_iteration: Called after each iteration, as in `solve_batch`.
    """
    stop = replace(stop, enough=max(stop.enough, EXACT))
    found = None
    if problem.is_squared:
        more = MORE_STARTS if each > 1 else 0
        found = compressed_fits(problem, starts, stop=stop, more=more, on_iteration=on_iteration)
    if found is None and each > 1:
        found = solve_single(
            problem,
            plain_solver(problem),
            starts=starts,
            stop=ROUNDS[-1].stop(stop),
            on_iteration=on_iteration,
        )
    if found is None:
        return ()
    count = len(starts[0])
    own = [found[first : first + each] for first in range(0, count, each)]
    return tuple(best([*fits, *found[count:]]) for fits in own)
