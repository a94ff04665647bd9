"""A start for many people: groups moved to a common distribution, at nearly the least loss.

Far from a fit, the penalty of many people has poor local optima: statistics of all scales are at
chance, and finer ones tell the groups apart. A fit that begins where the groups have the same
distribution does not end there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.quadratic import QuadraticForm
from parafair.dependence.sliced import move_together
from parafair.dependence.whitening import Standardized
from parafair.penalties import Penalty
from parafair.penalties.bound import BoundShared
from parafair.penalties.transport import MOST_GROUPS, PARTS
from parafair.solvers.decomposition import Decomposition
from parafair.solvers.inner import sum_people
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep

# Times that people are moved; the other factors are refitted in between.
MOVES = 2

# Parts move one after the other, which would take a GPU longer than a fit of more people.
MOST_PEOPLE = 200_000

# Binary digits of the factors from which people are moved. Ranks of people decide how they move, so
# rounding errors of the factors would grow until the start differs between numbers of processes.
# With so few digits there are none. The loss hardly grows, because rows are fitted to them.
DIGITS = 10

# Losses of directions below this share of the largest count as that much.
LEAST_LOSS_SHARE = 1e-12


def can_slice(problem: Problem) -> bool:
    """Tell whether there is such a start: for a penalty on rows, and people in few groups."""
    features = problem.penalized_features
    if not isinstance(problem.penalty, Penalty) or len(features) > MOST_PEOPLE:
        return False
    return len(features.joint(PARTS).categories) <= MOST_GROUPS


def sliced_start(problem: Problem, plain: Factors) -> tuple[Tensor, ...]:
    """Return factors whose rows have nearly the same distribution in all groups.

    Numeric features are cut into groups at their quantiles.

    Args:
        problem: A problem with sensitive features; the penalty matters for its parts alone.
        plain: The factors of a plain decomposition, one (size, rank) per mode.

    Returns:
        One factor (size, rank) per mode.
    """
    found = Decomposition(problem, tuple(factor[None] for factor in plain))
    groups, parts = _groups(problem), _parts(problem)
    found = _moved(_coarse(found), groups, parts)
    for _ in range(MOVES - 1):
        found = _moved(_coarse(found.refit()), groups, parts)
    return tuple(factor[0] for factor in found.factors)


def _coarse(found: Decomposition) -> Decomposition:
    """Return a decomposition whose factors have few digits; its rows are fitted again anyway."""
    factors = list(found.factors)
    for mode, factor in enumerate(factors):
        if mode != found.problem.mode:
            largest = factor.abs().amax(-2, keepdim=True)
            step = torch.exp2(largest.log2().ceil() - DIGITS)
            factors[mode] = torch.where(largest > 0, (factor / step).round() * step, 0.0)
    return replace(found, factors=tuple(factors))


def _moved(plain: Decomposition, groups: Tensor, parts: Sequence[Tensor]) -> Decomposition:
    """Return the decomposition with least-squares rows, moved in every part for itself.

    First they move where distances are losses, then where all directions count alike, as they do
    for the penalty.

    Args:
        plain: The decomposition.
        groups: The group of each penalized person of this process.
        parts: Positions of the people of each part among them.
    """
    problem, mode = plain.problem, plain.problem.mode
    block = Sweep(problem, plain.factors).block(mode)
    everybody = block.minimizer(QuadraticForm.zero(block.target))[0]
    rows = problem.penalized_rows(everybody).double()
    gram = sum_people(problem, len(everybody) * block.mean_gram[0].double(), mode)
    values, vectors = torch.linalg.eigh(gram / problem.shape[mode])
    # Directions without loss must stay invertible.
    root = vectors * values.clamp_min(LEAST_LOSS_SHARE * values.amax()).sqrt()
    rows = _move_in(root, rows, groups, parts)
    # Whitened rows of everybody, after the first moves.
    rows = _move_in(
        torch.linalg.inv(Standardized.of(rows, problem.team).basis), rows, groups, parts
    )
    factors = list(plain.factors)
    factors[mode] = everybody[None]  # also of people who are not moved
    return replace(plain, factors=tuple(factors)).with_rows(rows.to(everybody.dtype))


def _move_in(coordinates: Tensor, rows: Tensor, groups: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Return rows, shape (people, rank), moved in coordinates ``rows @ coordinates``."""
    points = rows @ coordinates
    for part in parts:
        points[part] = move_together(points[part], groups[part])
    moved: Tensor = points @ torch.linalg.inv(coordinates)
    return moved


def _groups(problem: Problem) -> Tensor:
    """Return the group of each penalized person of this process, shape (people,)."""
    codes = torch.from_numpy(problem.penalized_features.joint(PARTS).values)
    own = codes if problem.share is None else codes[problem.share.among]
    return own.to(problem.prototype.device)


def _parts(problem: Problem) -> list[Tensor]:
    """Return the people of each part of this process, as positions among the penalized ones.

    Parts do not depend on the number of processes, so neither do the moves.
    """
    assert isinstance(problem.penalty, Penalty)
    bound = problem.penalty.bind(problem.penalized_features, problem.prototype.new_ones(1))
    parts = bound.parts if isinstance(bound, BoundShared) else None
    if parts is None:
        parts = torch.zeros(len(problem.penalized_features), dtype=torch.long, device="cpu")
    own = parts if problem.share is None else parts[problem.share.among]
    device = problem.prototype.device
    return [(own == part).nonzero().flatten().to(device) for part in torch.unique(own).tolist()]
