"""A line search for a batch of functions whose members have steps of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.solvers.inner import USUAL, Inner
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed

# A step must decrease the objective by this share of what the slope promises, and must reduce the
# slope to this share. These are the usual values for quasi-Newton directions.
DECREASE, FLATTER = 1e-4, 0.9

# Maximum number of trials, and how many of them may lengthen a step that is already good.
MOST_TRIALS, MOST_LONGER = 12, 3


@packed
@dataclass(frozen=True, eq=False)
class Point:
    """Factors as one vector, with the objective and its gradient.

    Attributes:
        vector: All factors, shape (batch, N).
        objective: The objective.
        gradient: Its gradient, shape (batch, N).
        slopes: The part of the gradient from the penalty of each parameter with one, by number.
    """

    vector: Tensor
    objective: Objective
    gradient: Tensor
    slopes: Mapping[int, Tensor]

    def take(self, members: Tensor) -> Point:
        """Return the points of some members."""
        return Point(
            self.vector[members],
            self.objective.take(members),
            self.gradient[members],
            {mode: slope[members] for mode, slope in self.slopes.items()},
        )

    def put(self, members: Tensor, other: Point) -> Point:
        """Return these points with some members replaced by those of another."""
        return Point(
            self.vector.index_copy(0, members, other.vector),
            self.objective.put(members, other.objective),
            self.gradient.index_copy(0, members, other.gradient),
            {m: slope.index_copy(0, members, other.slopes[m]) for m, slope in self.slopes.items()},
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


def search(
    evaluate: Callable[[Tensor, Tensor], Point],
    start: Point,
    direction: Tensor,
    inner: Inner = USUAL,
) -> Search:
    """Find steps that decrease the objective enough, by the weak Wolfe conditions.

    The first trial is the whole step. A step that decreases too little is shortened by quadratic
    interpolation, one with an objective that is not finite to a tenth, and one after which the
    slope is still steep is lengthened.

    Args:
        evaluate: Returns the points of some members, given their positions and vectors.
        start: Where the search begins.
        direction: Descent directions, shape (batch, N). A member whose direction does not descend
            stays where it is.
        inner: The inner product of vectors of parameters.
    """
    slope = inner.dot(start.gradient, direction)
    best, step, low = start, torch.ones_like(slope), torch.zeros_like(slope)
    high = torch.full_like(slope, torch.inf)
    trials = torch.zeros_like(slope, dtype=torch.long)
    members = (slope < 0).nonzero().flatten()
    rounding = torch.finfo(direction.dtype).eps * start.objective.value.abs()
    for trial in range(MOST_TRIALS):
        if not len(members):
            break
        length, promised, along = step[members], slope[members], direction[members]
        point = evaluate(members, start.vector[members] + length[:, None].to(along) * along)
        trials[members] += 1
        gained = point.objective.value - start.objective.value[members]
        after = inner.dot(point.gradient, along)
        # Comparisons with NaN are false. The decrease is strict: a tiny promise may round to none.
        good = (gained < 0) & (gained <= DECREASE * length * promised) & torch.isfinite(after)
        better = good & (point.objective.value <= best.objective.value[members])
        chosen = better.nonzero().flatten()
        if len(chosen) == len(slope):
            best = point
        elif len(chosen):
            best = best.put(members[chosen], point.take(chosen))
        low[members] = torch.where(good, length, low[members])
        high[members] = torch.where(good, high[members], length)
        lengthen = good & (after < FLATTER * promised) & (trial < MOST_LONGER)
        # A promise below rounding error cannot be seen in the objective.
        visible = -length * promised > rounding[members]
        shorten = ~good & (low[members] == 0) & visible
        longer = _longer(length, promised, after, high[members])
        step[members] = torch.where(good, longer, _shorter(length, promised, gained))
        members = members[lengthen | shorten]
    return Search(best, low > 0, trials)


def _shorter(length: Tensor, slope: Tensor, gained: Tensor) -> Tensor:
    """Return the minimum of the parabola through what is known, between a tenth and a half."""
    found = -slope * length.square() / (2 * (gained - length * slope))
    return found.nan_to_num(0.0).clamp(0.1 * length, 0.5 * length)


def _longer(length: Tensor, slope: Tensor, after: Tensor, high: Tensor) -> Tensor:
    """Return where the slope would vanish, at least twice the length; or halfway to `high`."""
    found = (length * slope / (slope - after)).nan_to_num(0.0).clamp(2 * length, 8 * length)
    return torch.where(torch.isfinite(high), (length + high) / 2, found)
