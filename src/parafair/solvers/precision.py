"""Fits in single precision first: in half the time, with more digits than they need on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, stack_factors
from parafair.errors import Interrupted
from parafair.solvers.loop import Counted, OnFit, OnIteration, Solver, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.race import Race
from parafair.solvers.result import Fit, Status, Stop

# Below this tolerance, a fit in single precision would follow rounding errors.
LEAST_TOL = 1e-6


def solve_single(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    on_iteration: OnIteration | None = None,
    race: Race | None = None,
) -> tuple[Fit, ...]:
    """Return the fits of `solve_batch` in single precision, with factors of the problem's dtype."""
    single = problem.single
    if single is problem:
        return solve_batch(
            problem, solver, starts=starts, stop=stop, on_iteration=on_iteration, race=race
        )
    try:
        found = solve_batch(
            single,
            solver,
            starts=tuple(factor.to(single.prototype.dtype) for factor in starts),
            stop=stop,
            on_iteration=on_iteration,
            race=race,
        )
    except Interrupted as interruption:
        raise Interrupted(in_precision_of(interruption.fit, problem)) from interruption
    return tuple(in_precision_of(fit, problem) for fit in found)


def solve_twice(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Run a solver in single precision and then, from there, in the precision of the problem.

    Arguments and fits are those of `solve_batch`. Limits count for both runs together. If the
    problem has single precision itself, there is only one.
    """
    if not has_two_runs(problem, stop):
        return solve_batch(
            problem, solver, starts=starts, stop=stop, on_iteration=on_iteration, on_fit=on_fit
        )
    counted = Counted(on_iteration)
    first = solve_single(
        problem, solver, starts=starts, stop=first_stop(stop), on_iteration=counted.later()
    )
    return solve_again(
        problem, solver, first, starts=starts, stop=stop, counted=counted, on_fit=on_fit
    )


def has_two_runs(problem: Problem, stop: Stop) -> bool:
    """Tell whether fits of a problem run in single precision first."""
    return problem.single is not problem and stop.max_iter > 1


def first_stop(stop: Stop) -> Stop:
    """Return when the run in single precision stops."""
    return replace(stop, tol=max(stop.tol, LEAST_TOL), max_iter=stop.max_iter - 1)


def solve_again(
    problem: Problem,
    solver: Solver[Any],
    first: Sequence[Fit],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    counted: Counted,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return fits that continue those in single precision in the precision of the problem.

    Args:
        problem: What to minimize.
        solver: The solver.
        first: The fits in single precision.
        starts: Where those begin again that diverged.
        stop: When a fit stops.
        counted: Numbers the iterations.
        on_fit: Called with each fit.
    """
    # What diverged in single precision starts again.
    begun = [
        tuple(factor[member] for factor in starts)
        if fit.status is Status.DIVERGED
        else fit.cp.factors
        for member, fit in enumerate(first)
    ]
    before = [
        replace(fit, history=fit.history[:1]) if fit.status is Status.DIVERGED else fit
        for fit in first
    ]
    return solve_batch(
        problem,
        solver,
        starts=stack_factors(begun),
        stop=stop,
        on_iteration=counted.later(),
        on_fit=on_fit,
        before=before,
    )


def in_precision_of(fit: Fit, problem: Problem) -> Fit:
    """Return a fit with factors of the dtype of a problem."""
    factors = [factor.to(problem.prototype.dtype) for factor in fit.cp.factors]
    return replace(fit, cp=CPTensor.from_factors(factors))
