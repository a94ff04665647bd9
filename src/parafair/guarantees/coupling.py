"""(C): a bound on the best attacker's advantage in closed form, from pairs of people.

Two people at the distance d, in units of the noise, are told apart with a total variation of
``erf(d / (2 sqrt 2))``. If a coupling matches the people of two groups, the total variation between
the groups is at most the mean over the matches. This holds for every coupling, so a cheap one gives
a valid bound; the best one gives the smallest. It also covers an attacker who knows which two
people are matched.

For more groups, let a tree connect them. Then ``max_g p_g`` is at most ``p_root`` plus the sum over
the edges of ``max(0, p_child - p_parent)``: go from the root to the largest. The integral of the
latter is the total variation, so the best balanced accuracy is at most
``(1 + sum over edges of TV) / G``. The least sum is that of the minimum spanning tree.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.special import erf

from parafair.dependence.barycenter import couple

Floats = NDArray[np.float64]

EXACT_PAIRS = 4_000_000  # pairs of people in one assignment problem
PROGRAM_PAIRS = 30_000  # pairs of people in one linear program, for groups of different sizes
MATCHED_PEOPLE = 1200  # people matched by their squared distances, for groups of different sizes
BLOCK = 500  # people of each group in one assignment problem, if there are too many pairs
MOST_PAIRED = 10  # groups of which all pairs are coupled; otherwise each with the largest


def pair_bound(first: Floats, second: Floats) -> float:
    """Return an upper bound on the total variation between two mixtures.

    Args:
        first: Rows of one group in units of the noise, shape (n, d).
        second: Rows of the other group, shape (m, d).

    >>> round(pair_bound(np.zeros((3, 1)), np.full((3, 1), 2.0)), 4)  # erf(1 / sqrt(2))
    0.6827
    """
    n, m = len(first), len(second)
    if n == m and n * m <= EXACT_PAIRS:
        return _assigned(first, second)
    if n * m <= PROGRAM_PAIRS:
        return _programmed(first, second)
    if n + m <= MATCHED_PEOPLE:
        return _matched(first, second)
    one, two = _in_order(first, second)
    if n == m:
        found = [
            _assigned(one[k : k + BLOCK], two[k : k + BLOCK]) * len(one[k : k + BLOCK])
            for k in range(0, n, BLOCK)
        ]
        return float(sum(found) / n)
    return _along(one, two)


def coupling_bound(rows: Floats, codes: NDArray[np.intp]) -> float:
    """Return an upper bound on the best attacker's balanced accuracy above chance.

    Args:
        rows: Exact rows in units of the noise, shape (n, d).
        codes: The group of each person, from 0 on; none is empty. Shape (n,).
    """
    parts = [rows[codes == code] for code in range(int(codes.max()) + 1)]
    groups = len(parts)
    # Prim's algorithm; with many groups the tree is a star.
    center = int(np.argmax([len(part) for part in parts]))
    star = groups > MOST_PAIRED
    nearest = np.array(
        [0.0 if g == center else pair_bound(parts[center], parts[g]) for g in range(groups)]
    )
    left, total = set(range(groups)) - {center}, 0.0
    while left:
        new = min(left, key=lambda g: nearest[g])
        total += nearest[new]
        left.remove(new)
        for g in () if star else left:
            nearest[g] = min(nearest[g], pair_bound(parts[new], parts[g]))
    return float(min(total / groups, 1 - 1 / groups))


def _costs(first: Floats, second: Floats) -> Floats:
    return np.asarray(erf(cdist(first, second) / sqrt(8)))


def _assigned(first: Floats, second: Floats) -> float:
    """Return the least mean over all ways to pair the people of groups of equal size."""
    costs = _costs(first, second)
    return float(costs[linear_sum_assignment(costs)].mean())


def _programmed(first: Floats, second: Floats) -> float:
    """Return the least mean over all couplings of two groups."""
    n, m = len(first), len(second)
    costs = _costs(first, second)
    pairs = np.arange(n * m)
    ends = np.concatenate([pairs // m, n + pairs % m])
    table = csr_array((np.ones(2 * n * m), (ends, np.tile(pairs, 2))), shape=(n + m, n * m))
    right = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    found = linprog(costs.ravel(), A_eq=table, b_eq=right, method="highs")
    if found.status != 0:
        return _along(*_in_order(first, second))
    masses = np.maximum(found.x, 0)
    return _mean(masses, costs.ravel(), (pairs // m, pairs % m), (n, m))


def _matched(first: Floats, second: Floats) -> float:
    """Return the mean over the coupling with the least squared distances."""
    n, m = len(first), len(second)
    points = np.concatenate([first, second])
    found = couple(points, np.repeat([0, 1], [n, m]))
    i, j = found.people.T
    costs = np.asarray(erf(np.linalg.norm(points[i] - points[j], axis=1) / sqrt(8)))
    return _mean(found.masses, costs, (i, j - n), (n, m))


def _mean(
    masses: Floats,
    costs: Floats,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
    sizes: tuple[int, int],
) -> float:
    """Return the mean cost of a coupling from a solver.

    The solver keeps to the masses of the people up to its tolerance. What is missing, or is too
    much, may have to be matched anew, at a cost of at most 1.
    """
    missing = sum(
        float(np.abs(np.bincount(people, masses, minlength=size) - 1 / size).sum())
        for people, size in zip(pairs, sizes, strict=True)
    )
    return min(1.0, float(masses @ costs) + missing)


def _in_order(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return both groups in an order in which people at the same place of the list are near.

    Each group is halved at its median again and again, along one direction of the joint spread
    after the other, as in a k-d tree. Groups with the same distribution have the same cells.
    """
    both = np.concatenate([first, second])
    vectors = np.linalg.eigh(np.cov(both, rowvar=False).reshape(both.shape[1], -1))[1][:, ::-1]
    return _sorted(first @ vectors), _sorted(second @ vectors)


def _sorted(points: Floats) -> Floats:
    n = len(points)
    order, place = np.arange(n), np.arange(n) / n
    for level in range(max(1, int(np.ceil(np.log2(n))))):
        cell = np.floor(place * 2**level)
        axis = level % points.shape[1]
        order = order[np.lexsort((points[order, axis], cell))]
    return np.asarray(points[order])


def _along(one: Floats, two: Floats) -> float:
    """Return the mean over the coupling that takes the mass of both lists in their order."""
    ends = np.unique(np.concatenate([np.arange(1, len(p) + 1) / len(p) for p in (one, two)]))
    starts = np.concatenate([[0.0], ends[:-1]])
    middle = (starts + ends) / 2
    i, j = ((middle * len(p)).astype(np.intp).clip(max=len(p) - 1) for p in (one, two))
    distances = np.linalg.norm(one[i] - two[j], axis=1)
    return float((ends - starts) @ erf(distances / sqrt(8)))
