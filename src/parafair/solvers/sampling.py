"""A start for many people: a fit to a sample of them, carried over to everybody.

An iteration with all people takes as many times longer as there are more of them. Most of the way
from a plain decomposition to a fit is the same for a sample: how the other factors change, and
where people of a group move. Everybody else moves like the nearest person of the sample with the
same sensitive features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, Factors
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.neighbors import nearest_trained
from parafair.solvers.loop import OnIteration, Solver
from parafair.solvers.non_negative import project
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop
from parafair.solvers.sweep import Sweep

# People in a sample; they are few enough to be compared in one chunk.
SAMPLE = 1200

# A sample of most people would save no time.
LEAST_PEOPLE = 3 * SAMPLE


def solve_sample(
    problem: Problem,
    solver: Solver[Any],
    *,
    plain: Sequence[Fit],
    stop: Stop,
    on_iteration: OnIteration | None = None,
) -> list[Fit]:
    """Return fits to a sample, with rows for everybody.

    Args:
        problem: A problem with at least `LEAST_PEOPLE` penalized people; its members may differ in
            strength.
        solver: The solver.
        plain: A plain decomposition for each member, where its fit begins.
        stop: When a fit stops.
        on_iteration: Called after each iteration, as in `solve_batch`.
    """
    places, few = take_sample(problem)
    mode = problem.mode
    starts = [torch.stack(own) for own in zip(*(fit.cp.factors for fit in plain), strict=True)]
    starts[mode] = starts[mode][:, places]
    found = solve_single(few, solver, starts=tuple(starts), stop=stop, on_iteration=on_iteration)
    return [carry_over(problem, fit, places, few.penalized_features) for fit in found]


def take_sample(problem: Problem) -> tuple[Tensor, Problem]:
    """Return the positions of a sample of the penalized people, and the problem of these alone."""
    features, everybody = problem.penalized_features, problem.penalized
    drawn = features.sample(SAMPLE, np.random.RandomState(0))
    places = drawn if everybody is None else everybody.cpu().numpy()[drawn]
    few = problem.of_people(places, features.take(drawn))
    if problem.strengths is not None:
        few = few.with_strengths(problem.strengths)
    return torch.from_numpy(places).to(problem.prototype.device), few


def carry_over(problem: Problem, fit: Fit, places: Tensor, features: SensitiveFeatures) -> Fit:
    """Return a fit to a sample with rows for everybody.

    Args:
        problem: The problem of everybody.
        fit: A fit to the sample.
        places: The positions of the sample.
        features: Its sensitive features.
    """
    mode, factors = problem.mode, list(fit.cp.factors)
    sampled = factors[mode]
    # The best factor of side information depends on the rows; zeros count for nothing there.
    nobody = sampled.new_zeros(problem.shape[mode], sampled.shape[-1])
    factors[mode] = nobody.index_copy(0, places, sampled)
    block = Sweep(problem, [factor[None] for factor in factors]).block(mode)
    rows = block.minimizer(QuadraticForm.zero(block.target))[0]
    everybody = problem.penalized_rows(rows)
    nearest = nearest_trained(
        everybody, problem.penalized_features, plain=rows[places], trained_features=features
    )
    shifts = sampled - rows[places]
    moved = everybody + shifts[torch.from_numpy(nearest).to(places.device)]
    penalized = problem.penalized
    rows = moved if penalized is None else rows.index_copy(0, penalized, moved)
    factors[mode] = rows.index_copy(0, places, sampled)
    factors = list(project(problem.non_negative, factors))
    return replace(fit, cp=CPTensor.from_factors(factors))


def least_squares_rows(problem: Problem, others: Factors) -> Tensor:
    """Return everybody's rows that fit best with the other factors fixed, (batch, n, rank).

    Args:
        problem: The problem of everybody; its penalty is ignored.
        others: The factors of all other modes in order, each (batch, size, rank).
    """
    mode, factors = problem.mode, list(others)
    batch, _, rank = factors[0].shape
    factors.insert(mode, factors[0].new_zeros(batch, problem.shape[mode], rank))
    block = Sweep(problem, factors).block(mode)
    return block.minimizer(QuadraticForm.zero(block.target))
