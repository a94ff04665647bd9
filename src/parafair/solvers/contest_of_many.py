"""The contest between two starts of people who are compared in chunks.

One start is the plain decomposition, or a fit to a sample of the people that begins there. At the
other, the groups were moved to one distribution along random directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.solvers.checkpoints import stage
from parafair.solvers.contenders import Contender, of_members, worth_another
from parafair.solvers.contest import Contest, is_free
from parafair.solvers.dealing import ITERATIONS, solve_dealt
from parafair.solvers.loop import Counted, Solver
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.race import ROUNDS
from parafair.solvers.result import Fit, Stop, best
from parafair.solvers.sampling import LEAST_PEOPLE, factors_of, solve_sample, take_sample
from parafair.solvers.slicing import can_slice, sliced_start

# Deals that decide between the starts; see benchmarks/starts.py. Later deals are others.
CONTEST_DEALS = 4

# The people among whom starts compete, if there are at least twice as many.
CONTEST_PEOPLE = 4800


def find_winners(contest: Contest) -> list[Contender]:
    """Return the best start of each member of a problem that is compared in chunks."""
    problem, sampled = contest.problem, ROUNDS[-1].stop(contest.stop)
    if is_free(problem) and problem.people_in_chunks:
        many = ContestOfMany(
            problem, contest.solver, contest.plain, contest.stop, sampled, contest.counted
        )
        return stage(many.winners)
    if len(contest.starts) == len(contest.plain):
        return contest.starts
    return contest.winners(sampled, solve_single)


@dataclass(frozen=True, eq=False)
class ContestOfMany:
    """How the better start of each member is found.

    Attributes:
        problem: What to minimize; its members may differ in strength.
        solver: The solver.
        plain: A plain decomposition for each member; several members may share one.
        stop: When a fit stops.
        sampled: When a fit to a sample stops.
        counted: Numbers the iterations.
    """

    problem: Problem
    solver: Solver[Any]
    plain: Sequence[Fit]
    stop: Stop
    sampled: Stop
    counted: Counted

    def winners(self) -> list[Contender]:
        """Return the better start of each member.

        The objective after some iterations decides, with chunks that were not fitted. If there are
        many more people than this needs, starts compete among a sample of them.
        """
        problem, first = self.problem, self._first()
        again = worth_another(problem, self.plain) if can_slice(problem) else []
        sliced = cache(lambda fit: sliced_start(problem, fit.cp.factors))
        if len(problem.penalized_features) < 2 * CONTEST_PEOPLE:
            second = [Contender(member, sliced(self.plain[member])) for member in again]
            tried = self._tried(problem, [first[member] for member in again], second)
            for winner, _ in tried:
                first[winner.member] = winner
            return first
        places, few = take_sample(problem, CONTEST_PEOPLE)
        of_few = cache(lambda fit: sliced_start(few, factors_of(problem, fit.cp.factors, places)))
        one = [
            replace(first[member], factors=factors_of(problem, first[member].factors, places))
            for member in again
        ]
        two = [Contender(member, of_few(self.plain[member])) for member in again]
        for winner, is_first in self._tried(few, one, two):
            member = winner.member
            factors = first[member].factors if is_first else sliced(self.plain[member])
            first[member] = replace(winner, factors=factors, rough=None)
        return first

    def _first(self) -> list[Contender]:
        """Return the better of two starts: the plain decomposition, or a fit to a sample."""
        begun = [Contender(member, fit.cp.factors) for member, fit in enumerate(self.plain)]
        if len(self.problem.penalized_features) < LEAST_PEOPLE:
            return begun
        found = solve_sample(
            self.problem,
            self.solver,
            plain=self.plain,
            stop=self.sampled,
            on_iteration=self.counted.later(),
        )
        lower = self._objectives(found) < self._objectives(self.plain)
        return [
            replace(
                one,
                factors=fit.cp.factors if better else one.factors,
                n_iter=fit.n_iter,
                seconds=fit.seconds,
            )
            for one, fit, better in zip(begun, found, lower.tolist(), strict=True)
        ]

    def _objectives(self, fits: Sequence[Fit]) -> Tensor:
        """Return the objective of each member, shape (batch,)."""
        return self.problem.evaluate(stack_factors([fit.cp.factors for fit in fits])).value

    def _tried(
        self, problem: Problem, first: Sequence[Contender], second: Sequence[Contender]
    ) -> list[tuple[Contender, bool]]:
        """Return the winner of each pair after some iterations, and whether it is the first.

        Args:
            problem: The problem in which they compete.
            first: Contenders.
            second: The other contender of the same members.
        """
        if not first:
            return []
        pairs = zip(*(self._iterated(problem, some) for some in (first, second)), strict=True)
        winners = [(best([pair[0].fit, pair[1].fit]) is pair[0].fit, pair) for pair in pairs]
        # Rounding may differ between machines.
        device = first[0].factors[0].device
        is_first = torch.tensor([won for won, _ in winners], dtype=torch.float64, device=device)
        agreed = self.problem.team.agree(is_first).tolist()
        return [
            (pair[0] if won else pair[1], bool(won))
            for won, (_, pair) in zip(agreed, winners, strict=True)
        ]

    def _iterated(self, problem: Problem, contenders: Sequence[Contender]) -> list[Contender]:
        """Return contenders after the iterations that decide."""
        stop = replace(self.stop, max_iter=min(self.stop.max_iter, CONTEST_DEALS * ITERATIONS))
        found = solve_dealt(
            of_members(problem, [contender.member for contender in contenders]),
            self.solver,
            starts=stack_factors([contender.factors for contender in contenders]),
            stop=stop,
            on_iteration=self.counted.later(),
        )
        return [contender.after(fit) for contender, fit in zip(contenders, found, strict=True)]
