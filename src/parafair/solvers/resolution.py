"""What a fit need not settle: an error that the noise of released rows makes much larger."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from parafair.algebra.cp_tensor import Factors
from parafair.dependence.whitening import spread_basis
from parafair.penalties import NoisyPenalty
from parafair.solvers.inner import sum_people
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit
from parafair.solvers.sweep import Sweep


def noise_cost(problem: Problem, plain: Sequence[Fit]) -> float:
    """Return what noise at the resolution of the penalty adds to the loss, about.

    A fit that begins at one of these decompositions has noise in its rows when it is released.
    While it has a smaller objective than this, hardly anything that it gains can be seen.

    Args:
        problem: A problem.
        plain: Plain decompositions of it; the one with the least cost counts.
    """
    penalty = problem.penalty
    if not isinstance(penalty, NoisyPenalty) or not problem.is_squared or problem.structure:
        return 0.0
    each = (_cost(problem, fit.cp.factors, penalty.default_noise) for fit in plain)
    return min((cost for cost in each if isfinite(cost)), default=0.0)


def _cost(problem: Problem, factors: Factors, level: float) -> float:
    """Return the same for one decomposition.

    Noise with ``level**2`` times the covariance of the rows, ``B.T B``, adds the sum over people of
    ``level**2 trace(B G_i B.T)`` to the squared error.
    """
    mode = problem.mode
    batched = [factor.unsqueeze(0) for factor in factors]
    rows = problem.penalized_rows(factors[mode])
    basis = spread_basis(rows, problem.team).double()
    block = Sweep(problem, batched).block(mode)
    gram = sum_people(problem, len(factors[mode]) * block.mean_gram[0].double(), mode)
    return level**2 * float((basis @ gram @ basis.mT).trace()) / problem.count
