"""Starts of fits with a scale-free penalty, and the contest between them.

One start is the plain decomposition. At the other, all groups have the same distribution: that is
the transport repair of few people, and more are moved along random directions. Rough fits from both
decide. People who are compared in chunks have a contest of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.penalties import Transport
from parafair.penalties.base import ScorePenalty
from parafair.solvers.contenders import Contender, close_to_best, of_members, worth_another
from parafair.solvers.contest_of_many import ContestOfMany
from parafair.solvers.decomposition import repair
from parafair.solvers.loop import Counted, Solver
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop
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


def find_winners(
    problem: Problem, solver: Solver[Any], *, plain: Sequence[Fit], stop: Stop, counted: Counted
) -> list[Contender]:
    """Return the best start of each member, of those that the number of people allows."""
    if _is_free(problem) and problem.people_in_chunks:
        sampled = ROUNDS[-1].stop(stop)
        return ContestOfMany(problem, solver, plain, stop, sampled, counted).winners()
    each_member = [[Contender(member, fit.cp.factors)] for member, fit in enumerate(plain)]
    for member, factors in enumerate(_second_starts(problem, plain)):
        if factors is not None:
            each_member[member].append(Contender(member, factors))
    for current in ROUNDS:
        each = [one for contenders in each_member if len(contenders) > 1 for one in contenders]
        if not each:
            break
        found = solve_single(
            of_members(problem, [contender.member for contender in each]),
            solver,
            starts=stack_factors([contender.factors for contender in each]),
            stop=current.stop(stop),
            on_iteration=counted.later(),
        )
        tried = [contender.after(fit) for contender, fit in zip(each, found, strict=True)]
        for member in dict.fromkeys(contender.member for contender in tried):
            own = [contender for contender in tried if contender.member == member]
            each_member[member] = close_to_best(own, current.close)
    return [contenders[0] for contenders in each_member]


def _second_starts(problem: Problem, plain: Sequence[Fit]) -> list[tuple[Tensor, ...] | None]:
    """Return factors of another start of each member, or None where a fit need not begin there."""
    moved = _how_to_move(problem)
    if moved is None:
        return [None] * len(plain)
    worth, moved = worth_another(problem, plain), cache(moved)
    return [moved(fit) if member in worth else None for member, fit in enumerate(plain)]


def _how_to_move(problem: Problem) -> Callable[[Fit], tuple[Tensor, ...]] | None:
    """Return what gives the groups of a plain decomposition one distribution; None without it."""
    if len(problem.penalized_features) > MOST_REPAIRED:
        if not _is_free(problem) or not can_slice(problem):
            return None
        return lambda fit: sliced_start(problem, fit.cp.factors)
    if not _repairable(problem):
        return None
    whole = gather_problem(replace(problem, penalty=None, other_sensitive={}))
    return lambda fit: own_rows(problem, repair(whole, gather_fit(problem, fit).cp.factors))


def _is_free(problem: Problem) -> bool:
    """Tell whether rows may be anywhere; others would leave constraints, or overflow in a link."""
    return problem.is_squared and not problem.constrained


def _repairable(problem: Problem) -> bool:
    """Tell whether there is a repair."""
    if isinstance(problem.penalty, ScorePenalty):  # equal scores need far less than equal rows
        return False
    try:
        Transport().check(problem.penalized_features)
    except ValueError:  # numbers, or too many groups
        return False
    return True
