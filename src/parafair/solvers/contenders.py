"""Starts of the members of a batch that compete, and their rough fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status


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

    @property
    def fit(self) -> Fit:
        """The last rough fit."""
        assert self.rough is not None
        return self.rough

    def after(self, rough: Fit) -> Contender:
        """Return the contender after one more rough fit."""
        n_iter, seconds = self.n_iter + rough.n_iter, self.seconds + rough.seconds
        return Contender(self.member, rough.cp.factors, rough, n_iter, seconds)


def of_members(problem: Problem, members: Sequence[int]) -> Problem:
    """Return the problem of a batch with these members, which may repeat."""
    if problem.strengths is None:
        return problem
    device = problem.strengths.device
    return problem.take(torch.tensor(members, dtype=torch.long, device=device))


def strengths_of(problem: Problem, count: int) -> list[float]:
    """Return the strength of each of so many members."""
    if problem.strengths is not None:
        found: list[float] = problem.strengths.tolist()
        return found
    assert problem.penalty is not None
    return [problem.penalty.strength] * count


def worth_another(problem: Problem, plain: Sequence[Fit]) -> list[int]:
    """Return the members that have a second start: with a penalty, and a plain decomposition."""
    strengths = strengths_of(problem, len(plain))
    return [
        member
        for member, (fit, strength) in enumerate(zip(plain, strengths, strict=True))
        if strength and fit.status is not Status.DIVERGED
    ]
