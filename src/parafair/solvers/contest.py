"""Starts of fits with a scale-free penalty, and the contest between them.

One start is a fit with a weaker penalty, which began at the plain decomposition. At the other, all
groups have the same distribution: that is the transport repair of few people, and more are moved
along random directions. Fits run from both, until one of them has fallen behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.penalties import Transport
from parafair.penalties.base import ScorePenalty
from parafair.solvers.checkpoints import stage
from parafair.solvers.contenders import Contender, of_members, strengths_of, worth_another
from parafair.solvers.decomposition import repair
from parafair.solvers.ladder import Ladder
from parafair.solvers.loop import Counted, Solver, solve_batch
from parafair.solvers.precision import first_stop, has_two_runs, solve_again, solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.race import Race
from parafair.solvers.result import Fit, Status, Stop
from parafair.solvers.sharing import gather_fit, gather_problem, own_rows
from parafair.solvers.slicing import can_slice, sliced_start

# The repair of more people takes longer than the fit.
MOST_REPAIRED = 1000


@dataclass(frozen=True, eq=False)
class Contest:
    """Starts of the members of a batch that compete.

    Attributes:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        plain: A plain decomposition for each member; several members may share one.
        stop: When a fit stops.
        counted: Numbers the iterations.
        ladder: Rough fits with weaker penalties.
    """

    problem: Problem
    solver: Solver[Any]
    plain: Sequence[Fit]
    stop: Stop
    counted: Counted
    ladder: Ladder

    @cached_property
    def starts(self) -> list[Contender]:
        """The starts of all members: the rung below or a plain decomposition, and the second start.

        A member above the ground without another start has the plain decomposition as its second.
        """
        problem, plain = self.problem, self.plain
        if isinstance(problem.penalty, ScorePenalty):  # equal scores need far less than equal rows
            return [Contender(member, fit.cp.factors) for member, fit in enumerate(plain)]
        # No stage: another fit may share the rungs, so each of them is stored by itself.
        first = self.ladder.contenders(plain, strengths_of(problem, len(plain)))
        return first + stage(lambda: self._second(first))

    def _second(self, first: Sequence[Contender]) -> list[Contender]:
        """Return the second starts of the members that have one."""
        found = []
        for each, factors in zip(first, _second_starts(self.problem, self.plain), strict=True):
            if factors is not None or each.n_iter:
                others = self.plain[each.member].cp.factors if factors is None else factors
                found.append(Contender(each.member, others))
        return found

    def winners(self, stop: Stop, solve: Callable[..., tuple[Fit, ...]]) -> list[Contender]:
        """Return the best start of each member, after its fit.

        All of them run at once. Those that fall behind leave, and the last one runs until it stops.
        The weaker penalties of a member come before, whichever start wins.

        Args:
            stop: When a fit stops.
            solve: `solve_batch`, or `solve_single`.
        """
        starts, problem = self.starts, self.problem
        race = Race(tuple(each.member for each in starts), self.stop)
        found = solve(
            of_members(problem, race.fits),
            self.solver,
            starts=stack_factors([each.factors for each in starts]),
            stop=stop,
            on_iteration=self.counted.later(),
            race=race,
        )
        winners = enumerate(race.winners(found))
        return [
            replace(starts[member], factors=starts[winner].factors).after(found[winner])
            for member, winner in winners
        ]

    def solve(self, on_fit: Callable[[int, Fit, int, float], None]) -> None:
        """Fit each member, of a problem that is not compared in chunks.

        Args:
            on_fit: Called with the position of a member, its fit, and the iterations and the time
                of fits with weaker penalties.
        """
        problem, stop = self.problem, self.stop
        if has_two_runs(problem, stop):
            won = self.winners(first_stop(stop), solve_single)
        else:
            won = self.winners(stop, solve_batch)
        first = [each.fit for each in won]

        def finish(member: int, fit: Fit) -> None:
            before = first[member]
            rough = won[member].n_iter - before.n_iter
            on_fit(member, fit, rough, won[member].seconds - before.seconds)

        # A start that was beaten wins if all others diverge after that.
        ended = all(fit.status is not Status.BEATEN for fit in first)
        if ended and not has_two_runs(problem, stop):
            for member, fit in enumerate(first):
                finish(member, fit)
            return
        solve_again(
            problem,
            self.solver,
            first,
            starts=stack_factors([fit.cp.factors for fit in self.plain]),
            stop=stop,
            counted=self.counted,
            on_fit=finish,
        )


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
        if not is_free(problem) or not can_slice(problem):
            return None
        return lambda fit: sliced_start(problem, fit.cp.factors)
    if not _repairable(problem):
        return None
    whole = gather_problem(replace(problem, penalty=None, other_sensitive={}))
    return lambda fit: own_rows(problem, repair(whole, gather_fit(problem, fit).cp.factors))


def is_free(problem: Problem) -> bool:
    """Tell whether rows may be anywhere; others would leave constraints, or overflow in a link."""
    return problem.is_squared and not problem.constrained


def _repairable(problem: Problem) -> bool:
    """Tell whether there is a repair."""
    try:
        Transport().check(problem.penalized_features)
    except ValueError:  # numbers, or too many groups
        return False
    return True
