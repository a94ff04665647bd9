"""Fits of one seed exchange their results: no strength keeps a fit if another one's is better.

A solver may end in a poorer optimum at one strength than at its neighbors. The objective at a
strength is known for every fit, so each strength takes the best fit of all of them. Then the
residual before noise never falls from one strength to a larger one (with a ridge, the sum of loss
and ridge).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import stack_factors
from parafair.frontiers.plan import Plan
from parafair.frontiers.point import Member, Point
from parafair.solvers.fitting import starts_plain
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status
from parafair.solvers.sharing import gather_fit

# Another fit must be better by this share, or rounding would decide: in double precision, and in
# rounding errors of others.
GAIN, ROUNDING_ERRORS = 1e-9, 10


def exchange(plan: Plan, points: Sequence[Point]) -> list[Point]:
    """Return the points, each with the fit of its seed that has the lowest objective there.

    A point with another fit than before has no audit, errors or certificate. Methods whose fits do
    not begin at plain decompositions, as those of the paper, are left as they are, and so are
    learned encoders: each of them fits its own noise.

    Args:
        plan: The settings of the frontier.
        points: Fits at several strengths, in any order.
    """
    found = list(points)
    gain = max(GAIN, ROUNDING_ERRORS * torch.finfo(plan.task.problem.prototype.dtype).eps)
    if not starts_plain(plan.task.problem) or plan.task.settings.encoder is not None:
        return found
    for seed in {point.member.seed for point in points}:
        places = [
            k
            for k, point in enumerate(points)
            if point.member.seed == seed and point.fit.status is not Status.DIVERGED
        ]
        if len(places) < 2:
            continue
        fits = [_without_noise(plan, points[k]) for k in places]
        fixed, dependence = _parts(plan.task.problem, fits)
        for k, own in zip(places, range(len(fits)), strict=True):
            member = points[k].member
            objectives = fixed + (member.strength or 0.0) * dependence
            best = int(objectives.argmin())
            if objectives[best] < objectives[own] * (1 - gain):
                found[k] = Point(member, _moved(plan, fits[best], member))
    return found


def _without_noise(plan: Plan, point: Point) -> Fit:
    """Return a fit as it was before noise. A stored one has no such rows, but the data is here."""
    problem, noise = plan.problem_of([point.member]), plan.noise_of(point.member)
    return noise.subtract(problem, point.fit)


def _parts(problem: Problem, fits: Sequence[Fit]) -> tuple[Tensor, Tensor]:
    """Return loss plus ridge of each fit, and its penalty at strength 1, shape (fits,) each."""
    device = problem.prototype.device
    ones = torch.ones(len(fits), dtype=torch.float64, device=device)
    stacked = stack_factors(fit.cp.factors for fit in fits)
    factors = [factor.to(problem.prototype) for factor in stacked]
    judged = problem.with_strengths(ones).evaluate(factors)
    without = problem.with_strengths(0 * ones).evaluate(factors)
    return without.value, judged.penalty - without.penalty


def _moved(plan: Plan, fit: Fit, member: Member) -> Fit:
    """Return the fit of another strength as the fit of a member, with its noise."""
    problem, noise = plan.problem_of([member]), plan.noise_of(member)
    released = noise.release(problem, fit.with_factors(problem, fit.cp.factors))
    return gather_fit(problem, released)


def with_noise_of(plan: Plan, point: Point, member: Member) -> Fit:
    """Return the fit of a point as that of a member of the same strength and seed.

    The fit has its exact rows, and the noise of the member.
    """
    problem, exact = plan.problem_of([member]), _without_noise(plan, point)
    return gather_fit(problem, plan.noise_of(member).release(problem, exact))
