"""Starts of fits with a scale-free penalty, and the contest between them.

One start is the plain decomposition. At the other, all groups have the same distribution: the
transport repair of few people, and groups that were moved along random directions if there are
many. With many people, the first is a fit to a sample of them. Rough fits from both decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.penalties import Transport
from parafair.penalties.base import ScorePenalty
from parafair.solvers.dealing import solve_dealt
from parafair.solvers.decomposition import repair
from parafair.solvers.loop import Counted, Solver
from parafair.solvers.packing import packed
from parafair.solvers.precision import solve_single
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


def find_winners(
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
