"""From initial factors to finished fits: plain decompositions, repairs, the solver, postprocessing.

From a random start, a strong penalty destroys the fit and the solver does not recover it. So a fit
with a scale-free penalty begins at a converged plain decomposition or at fits with weaker penalties
that began there, and also at its transport repair, where all groups have the same distribution. The
lower objective wins. With many people it begins at a fit to a sample of them, from the plain
decomposition, or where the groups were moved to the same distribution along random directions. A
penalty on predicted scores begins at the plain decomposition alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, stack_factors
from parafair.errors import Interrupted
from parafair.penalties.base import moves_scale
from parafair.penalties.postprocessing import (
    MappedPostprocessing,
    Postprocessing,
    SeededPostprocessing,
)
from parafair.solvers.contest import Contest
from parafair.solvers.contest_of_many import CONTEST_DEALS, find_winners
from parafair.solvers.dealing import solve_dealt
from parafair.solvers.decomposition import Decomposition
from parafair.solvers.inner import sum_people
from parafair.solvers.ladder import Ladder
from parafair.solvers.loop import Counted, OnFit, OnIteration, Solver, solve_batch
from parafair.solvers.precision import solve_twice
from parafair.solvers.problem import Problem
from parafair.solvers.resolution import noise_cost
from parafair.solvers.result import Fit, Status, Stop, best
from parafair.solvers.steady import steadily


def decompose(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    rough: Sequence[Fit] = (),
    postprocessing: Postprocessing | None = None,
    seeds: Sequence[int] = (),
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per start of a batch, straight from the given factors.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops.
        rough: The rough fit of each start, if there were any; their time is that of the fits too.
        postprocessing: Changes the decomposition after the fit; None for no change.
        seeds: A seed for each member, for postprocessing that draws random numbers; none of them
            leaves that to its own seed.
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
            own = postprocessing
            if seeds and isinstance(own, SeededPostprocessing):
                own = own.with_seed(seeds[member])
            if isinstance(own, MappedPostprocessing):
                found, moves = own.learn(plain)
                fit = replace(fit, moves=moves)
            else:
                found = own.apply(plain)
            changed = [factor[0] for factor in found.factors]
            fit = fit.with_factors(problem, changed, seconds=perf_counter() - begin)
        fit = complete(problem, fit)
        if rough:
            begun = rough[member]
            fit = fit.after(begun.seconds, {"rough iterations": begun.n_iter})
        finished[member] = fit
        if on_fit is not None:
            on_fit(member, finished[member])

    # Passes over columns need few digits on the way.
    solve = solve_twice if problem.non_negative and problem.penalty is None else solve_batch
    solve(problem, solver, starts=starts, stop=stop, on_iteration=on_iteration, on_fit=finish)
    return tuple(finished[member] for member in range(len(starts[0])))


def starts_plain(problem: Problem) -> bool:
    """Tell whether fits begin at plain decompositions."""
    return moves_scale(problem.penalty)


def decompose_from(
    problem: Problem,
    solver: Solver[Any],
    *,
    plain: Sequence[Fit],
    stop: Stop,
    ladder: Ladder | None = None,
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per plain decomposition: from it, or from another start that is made of it.

    The lower objective wins. See `parafair.solvers.contest`.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        plain: A plain decomposition for each member; several members may share one.
        stop: When a member stops.
        ladder: Rough fits with weaker penalties, some of which may be there already.
        on_iteration: Called after each iteration, as in `solve_batch`, of the rough fits and then
            of the others.
        on_fit: Called with the position of a member and its fit as soon as it is finished.
    """
    finished: dict[int, Fit] = {}

    def finish(member: int, fit: Fit, rough: int, seconds: float = 0.0) -> None:
        begun = plain[member]
        finished[member] = complete(problem, fit).after(
            begun.seconds + seconds, {"plain iterations": begun.n_iter, "rough iterations": rough}
        )
        if on_fit is not None:
            on_fit(member, finished[member])

    counted = Counted(on_iteration)
    if ladder is None:
        ladder = ladder_of(problem, solver, plain=plain, stop=stop, counted=counted)
    ladder, stop = (
        replace(ladder, counted=counted),
        replace(stop, noise_cost=ladder.stop.noise_cost),
    )
    contest = Contest(problem, solver, plain, stop, counted, ladder)
    try:
        if not problem.in_chunks:
            with steadily(problem):
                contest.solve(finish)
            return tuple(finished[member] for member in range(len(plain)))
        first = find_winners(contest)
        solve_dealt(
            problem,
            solver,
            starts=stack_factors([winner.factors for winner in first]),
            stop=stop,
            dealt=CONTEST_DEALS,
            on_iteration=counted.later(),
            on_fit=lambda member, fit: finish(
                member, fit, first[member].n_iter, first[member].seconds
            ),
        )
    except Interrupted as interruption:
        # The best may be a rough fit that had converged.
        fit = replace(interruption.fit, status=Status.INTERRUPTED)
        raise Interrupted(fit, interruption.strength, interruption.noise) from interruption
    except KeyboardInterrupt as error:  # during a repair, or of a sample
        fit = replace(best(list(plain)), status=Status.INTERRUPTED)
        raise Interrupted(fit, strength=0.0) from error
    return tuple(finished[member] for member in range(len(plain)))


def ladder_of(
    problem: Problem, solver: Solver[Any], *, plain: Sequence[Fit], stop: Stop, counted: Counted
) -> Ladder:
    """Return the ladder of fits that begin at plain decompositions, without any rung."""
    stop = replace(stop, noise_cost=noise_cost(problem, plain))
    return Ladder(problem, solver, stop, counted)


def complete(problem: Problem, fit: Fit) -> Fit:
    """Return a fit with rows for everybody, its plain rows and the factor of side information."""
    return replace(fit, cp=fill_empty(problem, fit.cp)).with_plain(problem).with_side(problem)


def fill_empty(problem: Problem, cp: CPTensor) -> CPTensor:
    """Return the decomposition with the mean row at every index without observed entries.

    The rows of a structured factor depend on each other: they have values at all indices.
    """
    factors = list(cp.factors)
    for mode, empty in problem.empty.items():
        people = mode == problem.mode
        # Others may have people without entries.
        shared = people and not problem.team.is_alone
        if shared or (len(empty) and (people or problem.structure is None)):
            own = factors[mode].sum(0) - factors[mode][empty].sum(0)
            count = len(factors[mode]) - len(empty)
            mean = sum_people(problem, own, mode) / (problem.team.count(count) if people else count)
            factors[mode] = factors[mode].index_copy(0, empty, mean.expand(len(empty), -1))
    return replace(cp, factors=tuple(factors))
