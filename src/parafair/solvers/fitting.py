"""From initial factors to finished fits: plain decompositions, repairs, the solver, postprocessing.

From a random start, a strong penalty destroys the fit and the solver does not recover it. So a fit
with a scale-free penalty begins at a converged plain decomposition, and also at its transport
repair, where all groups have the same distribution. The lower objective wins. With many people it
begins at a fit to a sample of them, from the plain decomposition, or where the groups were moved to
the same distribution along random directions. A penalty on predicted scores begins at the plain
decomposition alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, stack_factors
from parafair.errors import Interrupted
from parafair.penalties import Transport
from parafair.penalties.base import ScorePenalty, moves_scale
from parafair.penalties.postprocessing import Postprocessing, SeededPostprocessing
from parafair.solvers.checkpoints import stage
from parafair.solvers.dealing import solve_dealt
from parafair.solvers.decomposition import Decomposition, repair
from parafair.solvers.inner import sum_people
from parafair.solvers.loop import Counted, OnFit, OnIteration, Solver, solve_batch
from parafair.solvers.packing import packed
from parafair.solvers.precision import solve_single, solve_twice
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop, best
from parafair.solvers.sampling import LEAST_PEOPLE, solve_sample
from parafair.solvers.sharing import gather_fit, gather_problem, own_rows
from parafair.solvers.slicing import can_slice, sliced_start

# The repair of more people takes longer than the fit.
MOST_REPAIRED = 1000


@dataclass(frozen=True)
class Round:
    """A round of the contest between starts.

    Attributes:
        tol: The decrease of the objective per iteration at which its fits stop.
        window: Iterations to average over.
        close: Fits whose objectives exceed the lowest by no more than this share stay in.
    """

    tol: float
    window: int
    close: float

    def stop(self, stop: Stop) -> Stop:
        """Return when fits of this round stop; as late as given, at the latest."""
        return replace(
            stop,
            tol=max(stop.tol, self.tol) if stop.tol else 0.0,
            window=min(stop.window, self.window),
        )


# Rough fits decide between starts. Some that are close after the first round end far apart, but
# none that are after the second.
ROUNDS = (Round(1e-3, 5, 0.05), Round(2e-4, 10, 0.0))

# Iterations that decide between two starts of many people; see benchmarks/starts.py.
CONTEST_ITERATIONS = 40


def decompose(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
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
            changed = [factor[0] for factor in own.apply(plain).factors]
            fit = fit.with_factors(problem, changed, seconds=perf_counter() - begin)
        finished[member] = complete(problem, fit)
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
    on_iteration: OnIteration | None = None,
    on_fit: OnFit | None = None,
) -> tuple[Fit, ...]:
    """Return one fit per plain decomposition: from it, or from another start that is made of it.

    Rough fits from both come first; the lower objective wins. See `ROUNDS`, and
    `CONTEST_ITERATIONS` for many people.

    Args:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        plain: A plain decomposition for each member; several members may share one.
        stop: When a member stops.
        on_iteration: Called after each iteration, as in `solve_batch`, of the rough fits and then
            of the others.
        on_fit: Called with the position of a member and its fit as soon as it is finished.
    """
    finished: dict[int, Fit] = {}

    def finish(member: int, fit: Fit) -> None:
        finished[member] = _after(complete(problem, fit), plain[member], first[member])
        if on_fit is not None:
            on_fit(member, finished[member])

    counted = Counted(on_iteration)
    try:
        first = stage(lambda: _winners(problem, solver, plain=plain, stop=stop, counted=counted))
        solve = solve_dealt if problem.in_chunks else solve_twice
        solve(
            problem,
            solver,
            starts=stack_factors([winner.factors for winner in first]),
            stop=stop,
            on_iteration=counted.later(),
            on_fit=finish,
        )
    except Interrupted as interruption:
        # The best may be a rough fit that had converged.
        fit = replace(interruption.fit, status=Status.INTERRUPTED)
        raise Interrupted(fit, interruption.strength, interruption.noise) from interruption
    except KeyboardInterrupt as error:  # during a repair, or of a sample
        fit = replace(best(list(plain)), status=Status.INTERRUPTED)
        raise Interrupted(fit, strength=0.0) from error
    return tuple(finished[member] for member in range(len(plain)))


@packed
@dataclass(frozen=True, eq=False)
class Contender:
    """A start of a member, and its rough fits so far.

    Attributes:
        member: The position of the member.
        factors: One factor (size, rank) per mode.
        rough: The last rough fit; None before the first.
        n_iter: Iterations of all rough fits.
        seconds: Their time.
    """

    member: int
    factors: tuple[Tensor, ...]
    rough: Fit | None = None
    n_iter: int = 0
    seconds: float = 0.0

    def after(self, rough: Fit) -> Contender:
        """Return the contender after one more rough fit."""
        n_iter, seconds = self.n_iter + rough.n_iter, self.seconds + rough.seconds
        return Contender(self.member, rough.cp.factors, rough, n_iter, seconds)


def _winners(
    problem: Problem, solver: Solver[Any], *, plain: Sequence[Fit], stop: Stop, counted: Counted
) -> list[Contender]:
    """Return the best start of each member, of those that the number of people allows."""
    # Rows that are moved would leave the constraints, or overflow in a link.
    free = problem.is_squared and not problem.constrained
    if free and problem.people_in_chunks:
        return _winners_of_many(problem, solver, plain=plain, stop=stop, counted=counted)
    of_members = [[Contender(member, fit.cp.factors)] for member, fit in enumerate(plain)]
    for member, factors in enumerate(_repairs(problem, plain)):
        if factors is not None:
            of_members[member].append(Contender(member, factors))
    for current in ROUNDS:
        each = [one for contenders in of_members if len(contenders) > 1 for one in contenders]
        if not each:
            break
        found = solve_single(
            _of_members(problem, [contender.member for contender in each]),
            solver,
            starts=stack_factors([contender.factors for contender in each]),
            stop=current.stop(stop),
            on_iteration=counted.later(),
        )
        tried = [contender.after(fit) for contender, fit in zip(each, found, strict=True)]
        for member in dict.fromkeys(contender.member for contender in tried):
            own = [contender for contender in tried if contender.member == member]
            of_members[member] = _close(own, current.close)
    return [contenders[0] for contenders in of_members]


def _winners_of_many(
    problem: Problem, solver: Solver[Any], *, plain: Sequence[Fit], stop: Stop, counted: Counted
) -> list[Contender]:
    """Return the best start of each member, of people who are compared in chunks.

    One is the plain decomposition or a fit to a sample. At the other, the groups have the same
    distribution. The objective after some iterations decides, with chunks that were not fitted.
    """
    first = [Contender(member, fit.cp.factors) for member, fit in enumerate(plain)]
    if len(problem.penalized_features) >= LEAST_PEOPLE:
        first = _sampled(problem, solver, plain=plain, stop=stop, counted=counted)
    again = _worth_another(problem, plain) if can_slice(problem) else []
    if not again:
        return first
    sliced = {id(plain[member]): sliced_start(problem, plain[member]) for member in again}
    second = [Contender(member, sliced[id(plain[member])]) for member in again]
    tried = [
        _few_iterations(problem, solver, contenders, stop=stop, counted=counted)
        for contenders in ([first[member] for member in again], second)
    ]
    for member, pair in zip(again, zip(*tried, strict=True), strict=True):
        first[member] = _close(list(pair), 0.0)[0]
    return first


def _few_iterations(
    problem: Problem,
    solver: Solver[Any],
    contenders: Sequence[Contender],
    *,
    stop: Stop,
    counted: Counted,
) -> list[Contender]:
    """Return contenders after the iterations that decide between starts of many people."""
    found = solve_dealt(
        _of_members(problem, [contender.member for contender in contenders]),
        solver,
        starts=stack_factors([contender.factors for contender in contenders]),
        stop=replace(stop, max_iter=min(stop.max_iter, CONTEST_ITERATIONS)),
        on_iteration=counted.later(),
    )
    return [contender.after(fit) for contender, fit in zip(contenders, found, strict=True)]


def _sampled(
    problem: Problem, solver: Solver[Any], *, plain: Sequence[Fit], stop: Stop, counted: Counted
) -> list[Contender]:
    """Return the better start of each member: its plain decomposition, or a fit to a sample."""
    found = solve_sample(
        problem,
        solver,
        plain=plain,
        stop=ROUNDS[-1].stop(stop),
        on_iteration=counted.later(),
    )
    lower = _objectives(problem, found) < _objectives(problem, plain)
    return [
        Contender(
            member, (fit if better else plain[member]).cp.factors, None, fit.n_iter, fit.seconds
        )
        for member, (fit, better) in enumerate(zip(found, lower.tolist(), strict=True))
    ]


def _objectives(problem: Problem, fits: Sequence[Fit]) -> Tensor:
    """Return the objective of each member, shape (batch,)."""
    return problem.evaluate(stack_factors([fit.cp.factors for fit in fits])).value


def _close(contenders: list[Contender], close: float) -> list[Contender]:
    """Return the contenders that stay in, the best one first."""
    fits = [contender.rough for contender in contenders if contender.rough is not None]
    winner = contenders[fits.index(best(fits))]
    most = (1 + close) * best(fits).objective
    others = [
        contender
        for contender, fit in zip(contenders, fits, strict=True)
        if contender is not winner
        and fit.status is not Status.DIVERGED
        and close
        and fit.objective <= most
    ]
    return [winner, *others]


def _of_members(problem: Problem, members: Sequence[int]) -> Problem:
    """Return the problem of a batch with these members, which may repeat."""
    if problem.strengths is None:
        return problem
    device = problem.strengths.device
    return problem.take(torch.tensor(members, dtype=torch.long, device=device))


def _repairs(problem: Problem, plain: Sequence[Fit]) -> list[tuple[Tensor, ...] | None]:
    """Return the repaired factors of each member, or None where a fit need not begin there."""
    if not _repairable(problem):
        return [None] * len(plain)
    unpenalized = gather_problem(replace(problem, penalty=None, other_sensitive={}))
    repaired: dict[int, tuple[Tensor, ...]] = {}
    found: list[tuple[Tensor, ...] | None] = []
    worth = _worth_another(problem, plain)
    for member, fit in enumerate(plain):
        if member not in worth:
            found.append(None)
            continue
        if id(fit) not in repaired:
            factors = gather_fit(problem, fit).cp.factors
            repaired[id(fit)] = own_rows(problem, repair(unpenalized, factors))
        found.append(repaired[id(fit)])
    return found


def _worth_another(problem: Problem, plain: Sequence[Fit]) -> list[int]:
    """Return the members that have a second start: with a penalty, and a plain decomposition."""
    assert problem.penalty is not None
    strengths = [problem.penalty.strength] * len(plain)
    if problem.strengths is not None:
        strengths = problem.strengths.tolist()
    return [
        member
        for member, (fit, strength) in enumerate(zip(plain, strengths, strict=True))
        if strength and fit.status is not Status.DIVERGED
    ]


def _repairable(problem: Problem) -> bool:
    """Tell whether there is a repair, and whether it is worth its time."""
    if isinstance(problem.penalty, ScorePenalty):  # equal scores need far less than equal rows
        return False
    try:
        Transport().check(problem.penalized_features)
    except ValueError:  # numbers, or too many groups
        return False
    return len(problem.penalized_features) <= MOST_REPAIRED


def _after(fit: Fit, plain: Fit, first: Contender) -> Fit:
    """Return a fit with the time of the fits before it, and with their iterations as counts."""
    seconds = plain.seconds + first.seconds
    history = tuple(replace(entry, seconds=entry.seconds + seconds) for entry in fit.history)
    counts = {"plain iterations": plain.n_iter, "rough iterations": first.n_iter}
    return replace(fit, history=history, counts={**fit.counts, **counts})


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
