"""Strengths of a frontier: over four decades, denser where the residual changes most."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from math import sqrt

from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit

# Multiples of the strength at which a plain fit's penalty equals the mean square of the data, or
# the mean deviance of the best constant.
COARSE = (0.01, 0.1, 1.0, 10.0, 100.0)
# Strengths added at a time; a batch of a few costs little more than one fit.
AT_ONCE = 3


def coarse_strengths(problem: Problem, plain: Fit, count: int) -> tuple[float, ...]:
    """Return strengths over four decades, scaled to the data and the units of the penalty.

    Args:
        problem: The problem with its penalty.
        plain: A fit without the penalty.
        count: Maximum number of strengths.
    """
    factors = [factor.unsqueeze(0) for factor in plain.cp.factors]
    found = problem.with_strengths(factors[0].new_ones(1)).penalty_of(factors)
    value = 0.0 if found is None else float(found)
    size = problem.total / problem.count
    unit = size / value if value > 0 else 1.0
    kept = {round(i * (len(COARSE) - 1) / (count - 1)) for i in range(count)}
    return tuple(float(f"{unit * COARSE[i]:.3g}") for i in sorted(kept))


def refined_strengths(
    residuals: dict[float, float], tried: Collection[float], count: int
) -> tuple[float, ...]:
    """Return new strengths between neighbors whose residuals differ most.

    Args:
        residuals: The residual at each strength that did not diverge, in order of strength.
        tried: All strengths so far, including those that diverged.
        count: Total number of strengths.
    """
    gaps = sorted(((abs(residuals[b] - residuals[a]), a, b) for a, b in pairwise(residuals)))
    between = [float(f"{sqrt(a * b):.3g}") for _, a, b in reversed(gaps)]
    new = [strength for strength in dict.fromkeys(between) if strength not in tried]
    return tuple(sorted(new[: max(0, min(AT_ONCE, count - len(tried)))]))
