"""Starts of the members of a batch that compete, and their rough fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, best


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


def close_to_best(contenders: list[Contender], close: float) -> list[Contender]:
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


def of_members(problem: Problem, members: Sequence[int]) -> Problem:
    """Return the problem of a batch with these members, which may repeat."""
    if problem.strengths is None:
        return problem
    device = problem.strengths.device
    return problem.take(torch.tensor(members, dtype=torch.long, device=device))


def worth_another(problem: Problem, plain: Sequence[Fit]) -> list[int]:
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
