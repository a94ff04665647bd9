"""From initial factors to finished fits: a warm path, the solver, postprocessing."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.penalties import PathPenalty
from parafair.penalties.postprocessing import Postprocessing
from parafair.solvers.decomposition import Decomposition
from parafair.solvers.loop import OnFit, OnIteration, Solver, solve_path
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop


def decompose(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    postprocessing: Postprocessing | None = None,
    warm: bool = True,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per start of a batch.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops.
        postprocessing: Changes the decomposition after the fit; None for no change.
        warm: Whether to solve weaker penalties first, if the penalty has a path.
        on_iteration: Called after each iteration, as in `solve_batch`.
        on_fit: Called with the position of a member and its fit as soon as it is finished.
    """
    if postprocessing is not None and problem.sensitive is not None:
        postprocessing.check(problem.penalized_features)
    finished: dict[int, Fit] = {}

    def finish(member: int, fit: Fit) -> None:
        # A member that diverged at its start has no finite factors.
        finite = all(bool(factor.isfinite().all()) for factor in fit.cp.factors)
        if postprocessing is not None and problem.sensitive is not None and finite:
            begin = perf_counter()
            plain = Decomposition(problem, tuple(factor[None] for factor in fit.cp.factors))
            changed = [factor[0] for factor in postprocessing.apply(plain).factors]
            fit = fit.with_factors(problem, changed, seconds=perf_counter() - begin)
        fit = replace(fit, cp=fill_empty(problem, fit.cp)).with_plain(problem)
        finished[member] = fit
        if on_fit is not None:
            on_fit(member, fit)

    members = len(starts[0])
    path = path_to(problem, members) if warm else (problem,)
    solve_path(path, solver, starts=starts, stop=stop, on_iteration=on_iteration, on_fit=finish)
    return tuple(finished[member] for member in range(members))


def fill_empty(problem: Problem, cp: CPTensor) -> CPTensor:
    """Return the decomposition with the mean row at every index without observed entries."""
    factors = list(cp.factors)
    for mode, empty in problem.empty.items():
        if len(empty):
            mean = factors[mode].sum(0) - factors[mode][empty].sum(0)
            mean = mean / (len(factors[mode]) - len(empty))
            factors[mode] = factors[mode].index_copy(0, empty, mean.expand(len(empty), -1))
    return replace(cp, factors=tuple(factors))


def path_to(problem: Problem, members: int) -> tuple[Problem, ...]:
    """Return problems with weaker penalties that lead to this one, if its penalty has a path.

    From a random start, a strong penalty destroys the fit and the solver does not recover it. From
    the solution of a weaker penalty, it keeps a better fit.
    """
    penalty = problem.penalty
    if not isinstance(penalty, PathPenalty):
        return (problem,)
    strengths = problem.strengths
    if strengths is None:
        strengths = problem.prototype.new_full(
            (members,), float(penalty.strength), dtype=torch.float64
        )
    strengths = strengths.double()
    return (*(problem.with_strengths(strengths * share) for share in penalty.path), problem)
