"""Quasi-Newton steps among non-negative factors: which entries are free."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.losses import needs_non_negative
from parafair.solvers.inner import Inner, Shapes
from parafair.solvers.non_negative import held
from parafair.solvers.parameters import flatten, unflatten
from parafair.solvers.problem import Problem
from parafair.solvers.wolfe import Point

# A full step makes no entry smaller by a larger share, if the loss has the logarithm of a mean.
MOST_SMALLER = 0.9


@dataclass(frozen=True, eq=False)
class Face:
    """The free entries of non-negative factors; all others go to zero and stay there.

    This is the two-metric projection of Bertsekas, "Projected Newton methods for optimization
    problems with simple constraints", 1982: curvature counts among the free entries alone, and
    points are projected.

    Attributes:
        held: Entries that are not free, shape (batch, N); None if all are.
        share: The share of an entry by which a full step may make it smaller; None for any.
    """

    held: Tensor | None
    share: float | None = None

    @classmethod
    def of(cls, problem: Problem, point: Point, shapes: Shapes) -> Face:
        """Return the free entries at a point."""
        if not problem.non_negative:
            return cls(None)
        factors, gradients = unflatten(point.vector, shapes), unflatten(point.gradient, shapes)
        # The logarithm of a mean is steep near zero: a fit that jumps there does not return.
        share = MOST_SMALLER if needs_non_negative(problem.loss) else None
        where = held(problem.non_negative, factors, gradients, problem.teams)
        return cls(flatten(where), share)

    def free(self, vector: Tensor) -> Tensor:
        """Return a vector with zero for the entries that are not free."""
        return vector if self.held is None else vector.masked_fill(self.held, 0.0)

    def pairs(self, steps: Tensor, changes: Tensor, inner: Inner) -> tuple[Tensor, Tensor]:
        """Return differences of the free entries; zero where their curvature is not positive."""
        if self.held is None:
            return steps, changes
        steps, changes = (part.masked_fill(self.held[:, None], 0.0) for part in (steps, changes))
        curved = inner.is_curved(steps, changes).unsqueeze(-1)
        return torch.where(curved, steps, 0.0), torch.where(curved, changes, 0.0)

    def towards(self, vector: Tensor, direction: Tensor) -> Tensor:
        """Return a direction that takes the entries that are not free to zero."""
        if self.held is None:
            return direction
        if self.share is not None:
            direction = torch.maximum(direction, -self.share * vector)
        return torch.where(self.held, -vector, direction)

    def surely_down(self, vector: Tensor, direction: Tensor, gradient: Tensor) -> Tensor:
        """Return what `towards` does, without entries along which the objective increases.

        Entries of a direction that descends as a whole may ascend alone. If others are cut short,
        the whole may ascend too.
        """
        found = self.towards(vector, direction)
        return found if self.share is None else found.masked_fill(found * gradient > 0, 0.0)
