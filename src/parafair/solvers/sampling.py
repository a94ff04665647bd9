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
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, Factors, stack_factors
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.neighbors import nearest_trained
from parafair.errors import Interrupted
from parafair.solvers.loop import OnIteration, Solver
from parafair.solvers.non_negative import project
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop
from parafair.solvers.sharing import gather_people
from parafair.solvers.sweep import Sweep
from parafair.team import Share, Team

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

    Raises:
        KeyboardInterrupt: On Ctrl-C; the fit so far has no rows for everybody.
    """
    places, few = take_sample(problem, SAMPLE)
    starts = stack_factors(factors_of(problem, fit.cp.factors, places) for fit in plain)
    try:
        found = solve_single(few, solver, starts=starts, stop=stop, on_iteration=on_iteration)
    except Interrupted as interruption:
        # Its fit is not one of this problem.
        raise KeyboardInterrupt("while a sample was fitted") from interruption
    if problem.share is not None:
        found = tuple(agreed(fit, problem.team) for fit in found)
    return [carry_over(problem, fit, places, few.penalized_features) for fit in found]


def take_sample(problem: Problem, people: int) -> tuple[NDArray[np.intp], Problem]:
    """Return the positions of a sample of the penalized people, and the problem of these alone.

    It is the same in all processes.
    """
    features = problem.penalized_features
    drawn = features.sample(people, np.random.RandomState(0))
    if problem.share is not None:
        places = problem.share.position_of_penalized(drawn)
        data = gather_people(problem, places)
        few = replace(problem, data=data, sensitive=features.take(drawn), share=None)
    else:
        places = drawn if problem.penalized is None else problem.penalized.cpu().numpy()[drawn]
        few = problem.of_people(places, features.take(drawn))
    if problem.strengths is not None:
        few = few.with_strengths(problem.strengths)
    return places, few


def factors_of(problem: Problem, factors: Factors, places: NDArray[np.intp]) -> tuple[Tensor, ...]:
    """Return factors, one (size, rank) per mode, with the rows of some people of all processes."""
    found = list(factors)
    found[problem.mode] = rows_of(problem, found[problem.mode][None], places)[0]
    return tuple(found)


def rows_of(problem: Problem, rows: Tensor, places: NDArray[np.intp]) -> Tensor:
    """Return the rows (batch, ..., rank) of some people of all processes, of those of this one."""
    share = problem.share
    if share is None:
        return rows[:, torch.from_numpy(places).to(rows.device)]
    found = rows.new_zeros(len(rows), len(places), rows.shape[-1])
    here, where = _here(share, places)
    found[:, where] = rows[:, here]
    return share.team.sum(found)


def _here(share: Share, places: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
    """Return the rows of those of some people who are in this process, and which they are."""
    where = np.flatnonzero(np.isin(places, share.places))
    here = np.searchsorted(share.places, places[where])
    return torch.from_numpy(here), torch.from_numpy(where)


def agreed(fit: Fit, team: Team) -> Fit:
    """Return the fit of process 0: rounding may differ between machines."""
    return replace(fit, cp=CPTensor.from_factors([team.agree(f) for f in fit.cp.factors]))


def carry_over(
    problem: Problem, fit: Fit, places: NDArray[np.intp], features: SensitiveFeatures
) -> Fit:
    """Return a fit to a sample with rows for everybody.

    Args:
        problem: The problem of everybody.
        fit: A fit to the sample.
        places: The positions of the sample among all people.
        features: Its sensitive features.
    """
    mode, factors = problem.mode, list(fit.cp.factors)
    sampled = factors[mode]
    share = problem.share
    here, where = torch.from_numpy(places), torch.arange(len(places), device="cpu")
    if share is not None:
        here, where = _here(share, places)
    here, where = here.to(sampled.device), where.to(sampled.device)
    # The best factor of side information depends on the rows; zeros count for nothing there.
    nobody = sampled.new_zeros(problem.data.shape[mode], sampled.shape[-1])
    factors[mode] = nobody.index_copy(0, here, sampled[where])
    block = Sweep(problem, [factor[None] for factor in factors]).block(mode)
    rows = block.minimizer(QuadraticForm.zero(block.target))[0]
    everybody = problem.penalized_rows(rows)
    theirs = problem.penalized_features if share is None else share.own_features
    plain = rows_of(problem, rows.unsqueeze(0), places)[0]
    nearest = nearest_trained(everybody, theirs, plain=plain, trained_features=features)
    shifts = sampled - plain
    moved = everybody + shifts[torch.from_numpy(nearest).to(rows.device)]
    penalized = problem.penalized
    rows = moved if penalized is None else rows.index_copy(0, penalized, moved)
    factors[mode] = rows.index_copy(0, here, sampled[where])
    factors = list(project(problem.non_negative, factors))
    return replace(fit, cp=CPTensor.from_factors(factors))


def least_squares_rows(problem: Problem, others: Factors) -> Tensor:
    """Return everybody's rows that fit best with the other factors fixed, (batch, n, rank).

    Args:
        problem: The problem, of the people of this process; its penalty is ignored.
        others: The factors of all other modes in order, each (batch, size, rank).
    """
    mode, factors = problem.mode, list(others)
    batch, _, rank = factors[0].shape
    factors.insert(mode, factors[0].new_zeros(batch, problem.data.shape[mode], rank))
    block = Sweep(problem, factors).block(mode)
    return block.minimizer(QuadraticForm.zero(block.target))
