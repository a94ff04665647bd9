"""Strengths to try: from no effect to all of it, close where the curve bends."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

from parafair.fit import Fit
from parafair.problem import Problem

# Decades around the strength whose penalty on a plain fit equals the mean square of the data.
COARSE = (0.01, 0.1, 1.0, 10.0, 100.0)
# Strengths added at a time: a batch of a few costs little more than one.
AT_ONCE = 3


def coarse_strengths(problem: Problem, plain: Fit) -> tuple[float, ...]:
    """Return strengths over four decades that fit the data and the units of the penalty.

    Args:
        problem: The problem with its penalty.
        plain: A fit without penalty.
    """
    factor = plain.cp.factors[problem.mode].unsqueeze(0)
    ones = factor.new_ones(1)
    term = problem.with_strengths(ones).term
    value = 0.0 if term is None else float(term.value(factor))
    size = problem.norm_squared / problem.tensor.numel()
    unit = size / value if value > 0 else 1.0
    return tuple(float(f"{unit * share:.3g}") for share in COARSE)


def refined_strengths(residuals: dict[float, float], count: int) -> tuple[float, ...]:
    """Return strengths between those whose residuals are furthest apart.

    Args:
        residuals: The residual at each strength tried, in order of strength.
        count: How many there shall be in all.
    """
    strengths, wanted = list(residuals), max(0, min(AT_ONCE, count - len(residuals)))
    pairs = pairwise(strengths)
    gaps = sorted(((abs(residuals[b] - residuals[a]), a, b) for a, b in pairs), reverse=True)
    return tuple(sorted(float(f"{sqrt(a * b):.3g}") for _, a, b in gaps[:wanted]))
