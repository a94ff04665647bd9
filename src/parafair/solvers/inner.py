"""Inner products of vectors of parameters, of which each process has those of its people.

The other parameters are the same in all processes, and count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.solvers.problem import Problem
from parafair.team import ALONE, Team

Shapes = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Inner:
    """The inner product of vectors of parameters, shape (..., N).

    Attributes:
        people: Where the parameters of people are.
        team: All processes.
    """

    people: slice
    team: Team

    @classmethod
    def of(cls, problem: Problem) -> Inner:
        """Return the inner product of the parameters of a problem."""
        sizes = [size * problem.rank for size in problem.data.shape[: problem.mode + 1]]
        return cls(slice(sum(sizes[:-1]), sum(sizes)), problem.team)

    def dot(self, first: Tensor, second: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return the product of vectors of the same shape (..., N), shape (...)."""
        found = first * second
        if self.team.is_alone:
            return found.sum(-1, dtype=dtype)
        own, others = self._apart(found)
        return self.team.sum(own.sum(-1, dtype=dtype)) + others.sum(-1, dtype=dtype)

    def products(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the products of all pairs of vectors, (..., p, N) and (..., q, N): (..., p, q)."""
        if self.team.is_alone:
            return first @ second.mT
        return self.several([(first, second)])[0]

    def several(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Return the products of several pairs, as `products` does, by one message."""
        if self.team.is_alone:
            return [first @ second.mT for first, second in pairs]
        apart = [(*self._apart(first), *self._apart(second)) for first, second in pairs]
        sums = self.team.sums([own @ theirs.mT for own, _, theirs, _ in apart])
        rests = (others @ rest.mT for _, others, _, rest in apart)
        return [total + rest for total, rest in zip(sums, rests, strict=True)]

    def is_curved(self, steps: Tensor, changes: Tensor) -> Tensor:
        """Tell where the curvature along steps is positive beyond rounding, shape (...).

        Args:
            steps: Differences of points, shape (..., N).
            changes: Differences of the gradients there.
        """
        eps = torch.finfo(steps.dtype).eps
        if self.team.is_alone:
            curvature: Tensor = (steps * changes).sum(-1)
            least: Tensor = eps * steps.norm(dim=-1) * changes.norm(dim=-1)
            return curvature > least
        both = torch.stack([steps, changes], -2)
        grams = self.products(both, both)
        lengths = grams.diagonal(dim1=-2, dim2=-1).sqrt().prod(-1)
        found: Tensor = grams[..., 0, 1] > eps * lengths
        return found

    def _apart(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the parameters of people, and all others."""
        begin, end = self.people.start, self.people.stop
        others = torch.cat([vectors[..., :begin], vectors[..., end:]], -1)
        return vectors[..., self.people], others


def sum_people(problem: Problem, part: Tensor, mode: int) -> Tensor:
    """Return what is a sum over the rows of a mode, over all people if it is theirs."""
    return problem.team.sum(part) if mode == problem.mode else part


# Of vectors that one process has whole.
USUAL = Inner(slice(0), ALONE)
