"""Optimal transport between groups of people: lower bounds on its cost, and plans.

The bounds are dual solutions that were made feasible for all people. They hold even if they were
computed from a sample of the people, or by a solver that stopped early.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array
from torch import Tensor

from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

# Each row is a lower bound on a cost, `row[0] + row[1] * mass`; costs are convex in the mass.
Lines: TypeAlias = NDArray[np.float64]

# Number of samples, each of `max_people // 2` people. The average of their potentials is closer to
# optimal, and computed faster, than the potentials of one larger sample.
SAMPLES = 8

LARGEST_COUPLING = 20_000  # combinations of people of all groups in one linear program
LONGEST_ROW = 512  # numbers per person if people are sampled
CHUNK = 2**20  # distances in memory at a time
MOST_PIVOTS = 10**8  # of the network simplex
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


def split(rows: Tensor, groups: Column) -> list[Tensor]:
    """Return the rows of each group."""
    return [rows[torch.from_numpy(groups.values == code)] for code in range(len(groups.categories))]


def draw_samples(
    rows: Tensor, groups: Column, max_people: int, random: np.random.RandomState
) -> list[list[Tensor]]:
    """Return the rows of each group for several samples, or once for at most `max_people`."""
    if len(rows) <= max_people:
        return [split(rows, groups)]
    drawn = [SensitiveFeatures((groups,)).sample(max_people // 2, random) for _ in range(SAMPLES)]
    return [split(rows[torch.from_numpy(people)], groups.take(people)) for people in drawn]


def project(rows: Tensor, groups: Column, random: np.random.RandomState) -> tuple[Tensor, float]:
    """Project long rows to an orthonormal basis; return the loss per person as well.

    Projections shorten distances, so a lower bound remains one. The basis contains the means of
    the groups and approximates the leading directions.
    """
    if rows.shape[1] <= LONGEST_ROW:
        return rows, 0.0
    basis = torch.from_numpy(random.standard_normal((rows.shape[1], LONGEST_ROW)))
    for _ in range(2):
        basis = torch.linalg.qr(rows.mT @ (rows @ basis)).Q
    means = [group.mean(0) for group in split(rows, groups)]
    basis = torch.linalg.qr(torch.cat([torch.stack(means, 1), basis], 1)).Q
    shortened = rows @ basis
    return shortened, max(0.0, float(rows.square().sum() - shortened.square().sum()) / len(rows))


def highest(lines: Lines, mass: float) -> NDArray[np.float64]:
    """Return the line that is highest at this mass, or the zero line if that is higher."""
    values = lines @ (1, mass)
    return lines[values.argmax()] if values.max() > 0 else np.zeros(2)


def between(
    x: Tensor, y: Tensor, masses: Sequence[float], samples: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Lines, list[Tensor]]:
    """Return lines below the cost of moving part of one group to another, and sampled plans.

    The cost ``V(m) = min <P, c>`` over plans of mass m with row sums at most 1/n and column
    sums at most 1/k has the dual

        max  slope * m + mean(f) + mean(g - slope)   with  f_i + g_j <= c_ij, f <= 0, g <= slope,

    so any feasible ``f``, ``g`` and ``slope`` give a line below V at *every* mass. With
    ``f`` given, the largest feasible ``g_j`` is ``min(slope, min_i c_ij - f_i)``, and so for f.

    Args:
        x: Rows of the first group.
        y: Rows of the second group.
        masses: Masses at which to compute a line, above 0; the last is 1, the mass of the plans.
        samples: Rows of both groups from which the potentials are computed.
    """
    guesses, slopes, plans = [], [], []
    everything = x.new_tensor(masses) == 1
    # If all mass is moved, potentials are unbounded, and f and g are defined up to a constant.
    ceiling = torch.where(everything, inf, 0.0).double()
    for some_x, some_y in samples:
        g, slope, plan = _potentials(_distances(some_x, some_y), masses)
        f = _transform(some_y, x, g, ceiling)
        guesses.append(f - torch.where(everything, f.mean(1), 0.0)[:, None])
        slopes.append(slope)
        plans.append(plan)
    slope = torch.stack(slopes).mean(0)
    g = _transform(x, y, torch.stack(guesses).mean(0), slope)
    f = _transform(y, x, g, ceiling)
    top = torch.where(everything, f.amax(1), 0.0)[:, None]
    slope = torch.where(everything, (g + top).amax(1).clamp_min(0), slope)
    height = f.mean(1) + g.mean(1) - slope - _rounding([x, y])
    return torch.stack([height, slope], 1).numpy(), plans


def _potentials(cost: Tensor, masses: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Solve partial transport between the people of a sample for every mass.

    A dummy person in each group takes the mass that is not moved, at no cost: Chapel, Alaya and
    Gasso, "Partial optimal transport with applications on positive-unlabeled learning", 2020.

    Returns:
        The potentials of the second group, one row per mass; the slopes; the last plan.
    """
    emd = _load_emd()
    n, k = cost.shape
    extended = np.zeros((n + 1, k + 1))
    extended[:n, :k] = cost
    extended[n, k] = extended.max()
    potentials, slopes, plan = [], [], np.empty(0)
    for mass in masses:
        if mass == 1:
            extended = extended[:n, :k].copy()
        first, second = (
            np.concatenate([np.full(size, 1 / size), [1 - mass] * (mass < 1)]) for size in (n, k)
        )
        plan, log = emd(first, second, extended, numItermax=MOST_PIVOTS, log=True)
        u, v = log["u"], log["v"]
        if mass == 1:
            potentials.append(v)
            slopes.append(inf)
        else:
            potentials.append(v[:k] - v[k])
            slopes.append(max(0.0, -u[n] - v[k]))
    return (
        torch.from_numpy(np.stack(potentials)),
        torch.tensor(slopes, dtype=torch.float64, device="cpu"),
        torch.from_numpy(plan),
    )


def _load_emd() -> Any:
    """Return POT's network simplex."""
    try:
        from ot import emd
    except ImportError:
        raise ImportError(
            "parity_limit needs POT (Python Optimal Transport), which is not installed; run "
            "pip install 'parafair[limits]'"
        ) from None
    return emd


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Return squared distances between all rows, shape (len(x), len(y))."""
    squares = x.square().sum(1)[:, None] + y.square().sum(1)
    return squares.addmm_(x, y.mT, alpha=-2).clamp_min_(0)


def _rounding(groups: Sequence[Tensor]) -> float:
    """Return a bound on the rounding error of a squared distance."""
    return 8 * groups[0].shape[1] * EPS * max(float(x.square().sum(1).max()) for x in groups)


def _transform(x: Tensor, y: Tensor, potentials: Tensor, ceiling: Tensor) -> Tensor:
    """Return ``min(ceiling_k, min_i |x_i - y_j|**2 - potentials_ki)``, shape (k, len(y))."""
    found = y.new_empty(len(potentials), len(y))
    rows = max(1, CHUNK // len(x))
    for chunk, part in zip(y.split(rows), found.split(rows, 1), strict=True):
        cost = _distances(chunk, x)
        for k, row in enumerate(potentials):
            part[k] = (cost - row).amin(1)
    return found.minimum(ceiling[:, None])


def join_plans(
    groups: Sequence[Tensor],
    shares: NDArray[np.float64],
    plans: dict[tuple[int, int], Tensor],
) -> float:
    """Return the cost of one coupling of all groups: independent given the largest group."""
    root = int(shares.argmax())
    mean, spread, total = shares[root] * groups[root], 0.0, 0.0
    for g, x in enumerate(groups):
        squares = x.square().sum(1)
        total += shares[g] * squares.mean()
        if g != root:
            plan = plans[root, g] if root < g else plans[g, root].mT
            plan = plan / plan.sum(1, keepdim=True)
            mapped = plan @ x
            mean = mean + shares[g] * mapped
            spread = spread + shares[g] ** 2 * (plan @ squares - mapped.square().sum(1))
    return max(0.0, float(total - (mean.square().sum(1) + spread).mean()))


def couple(
    groups: Sequence[Tensor], shares: NDArray[np.float64], masses: Sequence[float]
) -> tuple[Lines, float]:
    """Return lines below the cost of coupling part of all groups, and the cost of the whole."""
    sizes = [len(x) for x in groups]
    cost = np.zeros(sizes)
    for g, h in combinations(range(len(sizes)), 2):
        between = shares[g] * shares[h] * _distances(groups[g], groups[h]).numpy()
        cost += between.reshape([size if d in (g, h) else 1 for d, size in enumerate(sizes)])
    cost = cost.ravel()
    unit = max(cost.max(), TINY)
    # One row per person: the combinations that include the person.
    place = np.indices(sizes).reshape(len(sizes), -1) + np.cumsum([0, *sizes[:-1]])[:, None]
    column = np.broadcast_to(np.arange(cost.size), place.shape)
    part_of = csr_array((np.ones(place.size), (place.ravel(), column.ravel())))
    weights = np.concatenate([np.full(size, 1 / size) for size in sizes])
    lines, whole = [], 0.0
    for mass in masses:
        found = linprog(cost / unit, part_of, weights, np.ones((1, cost.size)), mass)
        people, slope = -found.ineqlin.marginals, found.eqlin.marginals[0]
        # The solver may violate the dual constraints slightly; a lower slope makes them hold.
        slope -= max(0.0, (slope - part_of.T @ people - cost / unit).max())
        lines.append((-unit * (weights @ people) - _rounding(groups), unit * slope))
        whole = unit * found.fun
    return np.array(lines), whole
