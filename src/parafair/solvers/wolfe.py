"""A line search for a batch of functions whose members have steps of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.solvers.problem import Objective

# A step must decrease the objective by this share of what the slope promises, and must reduce the
# slope to this share. These are the usual values for quasi-Newton directions.
DECREASE, FLATTER = 1e-4, 0.9

# Maximum number of trials, and how many of them may lengthen a step that is already good.
MOST_TRIALS, MOST_LONGER = 12, 3


@dataclass(frozen=True, eq=False)
class Point:
    """Factors as one vector, with the objective and its gradient.

    Attributes:
        vector: All factors, shape (batch, N).
        objective: The objective.
        gradient: Its gradient, shape (batch, N).
    """

    vector: Tensor
    objective: Objective
    gradient: Tensor

    def take(self, members: Tensor) -> Point:
        """Return the points of some members."""
        return Point(self.vector[members], self.objective.take(members), self.gradient[members])

    def put(self, members: Tensor, other: Point) -> Point:
        """Return these points with some members replaced by those of another."""
        return Point(
            self.vector.index_copy(0, members, other.vector),
            self.objective.put(members, other.objective),
            self.gradient.index_copy(0, members, other.gradient),
        )


@dataclass(frozen=True, eq=False)
class Search:
    """What a line search found.

    Attributes:
        point: The new points; the old ones where no step was found.
        moved: Where a step was found, shape (batch,).
        trials: Number of evaluations, shape (batch,).
    """

    point: Point
    moved: Tensor
    trials: Tensor


def search(evaluate: Callable[[Tensor, Tensor], Point], start: Point, direction: Tensor) -> Search:
    """Find steps that decrease the objective enough, by the weak Wolfe conditions.

    The first trial is the whole step. A step that decreases too little is shortened by quadratic
    interpolation, one with an objective that is not finite to a tenth, and one after which the
    slope is still steep is lengthened.

    Args:
        evaluate: Returns the points of some members, given their positions and vectors.
        start: Where the search begins.
        direction: Descent directions, shape (batch, N).
    """
    slope = (start.gradient * direction).sum(-1, dtype=torch.float64)
    begin, best = start.objective.value, start
    step = torch.ones_like(slope)
    low, high = torch.zeros_like(slope), torch.full_like(slope, torch.inf)
    trials = torch.zeros_like(slope, dtype=torch.long)
    members = torch.arange(len(slope), dtype=torch.long, device=slope.device)
    for trial in range(MOST_TRIALS):
        length, promised = step[members], slope[members]
        move = length[:, None].to(direction) * direction[members]
        point = evaluate(members, start.vector[members] + move)
        trials[members] += 1
        value, before = point.objective.value, begin[members]
        steepness = (point.gradient * direction[members]).sum(-1, dtype=torch.float64)
        # Comparisons with NaN are false. Strictly: rounding hides what the slope promises.
        good = (value < before) & (value <= before + DECREASE * length * promised)
        good = good & torch.isfinite(steepness)
        better = good & (value <= best.objective.value[members])
        if better.all() and len(members) == len(slope):
            best = point
        else:
            chosen = better.nonzero().flatten()
            best = best.put(members[chosen], point.take(chosen))
        low[members] = torch.where(good, length, low[members])
        high[members] = torch.where(good, high[members], length)
        steep = good & (steepness < FLATTER * promised)
        pending = (steep if trial < MOST_LONGER else torch.zeros_like(steep)) | (
            ~good & (low[members] == 0)
        )
        kept = pending.nonzero().flatten()
        if not len(kept):
            break
        bend = 2 * (value - before - length * promised)
        shorter = (-promised * length.square() / bend).nan_to_num(0.0)
        shorter = shorter.clamp(0.1 * length, 0.5 * length)
        longer = length * promised / (promised - steepness)
        longer = longer.nan_to_num(0.0).clamp(2 * length, 8 * length)
        middle = (low[members] + high[members]) / 2
        bounded = torch.isfinite(high[members])
        longer = torch.where(bounded, middle, longer)
        step[members] = torch.where(good, longer, shorter)
        members = members[kept]
    return Search(best, low > 0, trials)
