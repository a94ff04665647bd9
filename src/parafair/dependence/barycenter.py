"""The Wasserstein-2 barycenter of groups: people move to places that all groups have in common.

A coupling matches people of all groups. A match puts one person of each group in the same place,
the mean of their points weighted by the shares of the groups. If every person goes to one of their
matches, drawn in proportion to its mass, all groups have the same distribution of places. The
optimal coupling does so at the least mean squared move.

* Two groups of equal size: an assignment problem. The optimum pairs people, so nothing is drawn.
* Two groups of other sizes: a linear program, solved to optimality by column generation.
* More groups: the same program, if it is small. Otherwise people are matched group by group to the
  mean of the other groups. That ends in a local optimum; the groups agree all the same.
* More groups of equal size: if the optimum splits people, the local optimum that does not.
* Many people: chunks, each with the same share of every group, are coupled on their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

CHUNK_PEOPLE = 2000  # people coupled together, about
FEWEST_OF_A_GROUP = 20  # members of a small group in each chunk; they are repeated if needed
# Combinations of people, and groups, in one linear program of three or more groups.
LARGEST_PROGRAM, MOST_AXES = 500_000, 8

# Smoothing of the first potentials, as shares of the mean cost, and the steps at each.
SMOOTHING, SMOOTHING_STEPS = (0.1, 0.03, 0.01), 20
COLUMNS = 3  # columns of the linear program that each person adds at a time
MOST_PROGRAMS = 100  # linear programs of one coupling
MOST_ROUNDS = 10  # times that every group is matched again
GAIN = 1e-3  # a smaller relative gain ends these rounds
ROUNDING = 1e-9  # of a mass or of a reduced cost, in units of a typical one


@dataclass(frozen=True, eq=False)
class Coupling:
    """A coupling of all groups.

    Attributes:
        people: The person of each group in each match, shape (matches, groups).
        masses: The mass of each match, shape (matches,); the sum is 1. The matches of a person of a
            group of size n have the mass 1 / n.
        shares: The share of each group among all people.
        exact: Whether no coupling costs less, up to rounding. A coupling of chunks is not.
    """

    people: Positions
    masses: Floats
    shares: Floats
    exact: bool

    def means(self, points: Floats) -> Floats:
        """Return the place of every match, shape (matches, columns)."""
        return _means([points] * len(self.shares), self.shares, self.people)

    def cost(self, points: Floats) -> float:
        """Return the mean squared move per person."""
        places = self.means(points)
        moves = [
            p * np.square(points[self.people[:, g]] - places).sum(1)
            for g, p in enumerate(self.shares)
        ]
        return float(self.masses @ np.sum(moves, axis=0))

    def draw(self, seed: int) -> Positions:
        """Return one match of every person, drawn in proportion to the masses, shape (people,)."""
        random = np.random.default_rng(seed)
        drawn = np.empty(int(self.people.max()) + 1, np.intp)
        for column in self.people.T:
            order = np.argsort(column, kind="stable")
            members, first = np.unique(column[order], return_index=True)
            ends = np.cumsum(self.masses[order])
            below = np.concatenate([[0.0], ends])[first]
            above = ends[np.append(first[1:], len(order)) - 1]
            level = below + random.random(len(members)) * (above - below)
            # A level equal to the end of a match belongs to the next one.
            found = np.searchsorted(ends, level, side="right")
            last = np.append(first[1:], len(order)) - 1
            drawn[members] = order[np.clip(found, first, last)]
        return drawn


def barycenter(points: Floats, groups: Positions, *, seed: int = 0) -> Floats:
    """Return the points moved to a distribution common to all groups, shape (people, columns).

    Args:
        points: Shape (people, columns); finite.
        groups: The group of each person, from 0 on; none is empty. Shape (people,).
        seed: Seed of the draw among several matches of a person, and of the chunks.

    >>> barycenter(np.array([[0.0], [3.0], [5.0]]), np.array([0, 1, 1])).ravel()[1:]
    array([2.        , 3.33333333])
    """
    coupling = couple(points, groups, seed=seed)
    return coupling.means(points)[coupling.draw(seed)]


def couple(points: Floats, groups: Positions, *, seed: int = 0) -> Coupling:
    """Return a coupling of all groups at a small mean squared move.

    Args:
        points: Shape (people, columns); finite.
        groups: The group of each person, from 0 on; none is empty. Shape (people,).
        seed: Seed of the chunks.
    """
    members = [np.flatnonzero(groups == code) for code in range(int(groups.max()) + 1)]
    shares = np.array([len(part) for part in members]) / len(groups)
    # A typical size of 1, so that squares neither overflow nor vanish.
    points = points - points.mean(0)
    points = points / max(float(np.abs(points).max()), np.finfo(np.float64).tiny)
    found, chunks = [], _chunks(members, np.random.default_rng(seed))
    for weight, people, masses in chunks:
        matches, mass, exact = _couple([points[part] for part in people], masses, shares)
        columns = [part[matches[:, g]] for g, part in enumerate(people)]
        found.append((np.column_stack(columns), weight * mass, exact))
    return Coupling(
        np.concatenate([matches for matches, _, _ in found]),
        np.concatenate([mass for _, mass, _ in found]),
        shares,
        len(found) == 1 and found[0][2],
    )


def _chunks(
    members: Sequence[Positions], random: np.random.Generator
) -> list[tuple[float, list[Positions], list[Floats]]]:
    """Divide people into chunks with the same share of every group.

    A person at the border of two chunks is in both, with a part of the mass in each. Small groups
    are repeated, so that no chunk is without them.

    Returns:
        For each chunk its mass, and for each group the people and their masses, which sum to 1.
    """
    count = -(-sum(map(len, members)) // CHUNK_PEOPLE)
    if count == 1:
        return [(1.0, list(members), [np.full(len(part), 1 / len(part)) for part in members])]
    orders = []
    for part in members:
        times = min(count, -(-FEWEST_OF_A_GROUP * count // len(part)))
        orders.append(np.concatenate([random.permutation(part) for _ in range(times)]))
    # If the sizes have a common divisor, borders between people of all groups.
    steps = reduce(gcd, map(len, orders))
    borders = np.arange(count + 1) / count
    if steps >= count:
        borders = np.round(borders * steps) / steps
    chunks = []
    for low, high in pairwise(borders):
        people, masses = [], []
        for order in orders:
            begin, end = low * len(order), high * len(order)
            # An overlap that is rounding error is none.
            first, last = int(begin + ROUNDING), int(np.ceil(end - ROUNDING))
            place = np.arange(first, last)
            overlap = np.minimum(place + 1, end) - np.maximum(place, begin)
            people.append(order[first:last])
            masses.append(overlap / overlap.sum())
        chunks.append((float(high - low), people, masses))
    return chunks


def _couple(
    points: Sequence[Floats], masses: Sequence[Floats], shares: Floats
) -> tuple[Positions, Floats, bool]:
    """Return matches (matches, groups), their masses, and whether no coupling costs less.

    Args:
        points: The points of each group; matches are positions among them.
        masses: The masses of its people; the sum is 1.
        shares: The share of each group among all people.
    """
    if len(points) == 2:
        return _couple_two(points, masses)
    sizes = [len(part) for part in points]
    equal = len(set(sizes)) == 1 and all(map(_is_uniform, masses))
    start = points[int(shares.argmax())]
    if len(sizes) <= MOST_AXES and prod(sizes) <= LARGEST_PROGRAM:
        cost = np.zeros(sizes)
        for g, h in combinations(range(len(sizes)), 2):
            apart = shares[g] * shares[h] * cdist(points[g], points[h], "sqeuclidean")
            cost += apart.reshape([size if d in (g, h) else 1 for d, size in enumerate(sizes)])
        matches, mass, exact = _program(cost, masses)
        if not equal or len(mass) == sizes[0]:
            return matches, mass, exact
        heaviest = matches[np.argsort(-mass, kind="stable")[: sizes[0]]]
        start = _means(points, shares, heaviest)
    slots = _match_in_turn(points, shares, start)
    if equal:
        return slots, masses[0], False
    places = _means(points, shares, slots)
    uniform = np.full(len(places), 1 / len(places))
    parts = []
    for part, weights in zip(points, masses, strict=True):
        matches, mass, _ = _couple_two((places, part), (uniform, weights))
        order = np.lexsort((matches[:, 1], matches[:, 0]))
        parts.append((matches[order, 1], mass[order]))
    return *_join(parts), False


def _means(points: Sequence[Floats], shares: Floats, matches: Positions) -> Floats:
    parts = zip(points, shares, matches.T, strict=True)
    return np.asarray(np.sum([share * part[column] for part, share, column in parts], axis=0))


def _is_uniform(masses: Floats) -> bool:
    return bool(np.ptp(masses) <= ROUNDING * masses.max())


def _couple_two(
    points: Sequence[Floats], masses: Sequence[Floats]
) -> tuple[Positions, Floats, bool]:
    """Return the optimal matches of two groups, as `_couple` does."""
    cost = cdist(points[0], points[1], "sqeuclidean")
    if cost.shape[0] == cost.shape[1] and all(map(_is_uniform, masses)):
        return np.column_stack(linear_sum_assignment(cost)), masses[0], True
    return _program(cost, masses)


def _match_in_turn(points: Sequence[Floats], shares: Floats, start: Floats) -> Positions:
    """Return matches (slots, groups) of equal mass, each group matched to the mean of the others.

    There are as many slots as people of the largest group; those of other groups are repeated as
    evenly as possible. The mean squared distance from the mean never increases.

    Args:
        points: The points of each group.
        shares: The share of each group among all people.
        start: Points that all groups are matched to first, one per slot or fewer.
    """
    size = max(map(len, points))
    start = start[np.arange(size) * len(start) // size]
    copies = [np.arange(size) * len(part) // size for part in points]

    def match(group: int, places: Floats) -> Positions:
        apart = cdist(places, points[group][copies[group]], "sqeuclidean")
        return np.asarray(copies[group][linear_sum_assignment(apart)[1]])

    slots = np.column_stack([match(group, start) for group in range(len(points))])
    before = np.inf
    for _ in range(MOST_ROUNDS):
        for group, share in enumerate(shares):
            own = share * points[group][slots[:, group]]
            others = (_means(points, shares, slots) - own) / (1 - share)
            slots[:, group] = match(group, others)
        places = _means(points, shares, slots)
        cost = sum(
            share * float(np.square(part[column] - places).sum())
            for part, share, column in zip(points, shares, slots.T, strict=True)
        )
        if before - cost <= GAIN * cost:
            break
        before = cost
    return slots


def _join(parts: Sequence[tuple[Positions, Floats]]) -> tuple[Positions, Floats]:
    """Lay the masses of each part side by side from 0 to 1; return what meets, with its mass.

    Args:
        parts: For each group, people in order and their masses, which sum to 1.
    """
    ends = [np.cumsum(masses) / masses.sum() for _, masses in parts]
    cuts = np.unique(np.concatenate([[0.0], *ends]))
    fewest = min(float(masses.min()) for _, masses in parts)
    cuts = cuts[np.append(np.diff(cuts) > ROUNDING * fewest, True)]
    middle, masses = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    columns = [
        people[np.searchsorted(end, middle).clip(max=len(people) - 1)]
        for (people, _), end in zip(parts, ends, strict=True)
    ]
    return np.column_stack(columns), masses / masses.sum()


def _program(cost: Floats, masses: Sequence[Floats]) -> tuple[Positions, Floats, bool]:
    """Return the optimal matches, as `_couple` does, by linear programming.

    The program has one row per person and one column per combination of people. It starts with few
    columns, chosen by smoothed potentials, and adds those with negative reduced costs until there
    are none.

    Args:
        cost: The cost of each combination of people, one axis per group.
        masses: The masses of the people of each group; the sum is 1.
    """
    cost, sizes = _reduce(cost), cost.shape
    scale = float(max(sizes))  # masses near 1, because the solver's tolerance is absolute
    people = [np.arange(size) for size in sizes]
    matches, mass = _join(list(zip(people, masses, strict=True)))
    first = np.ravel_multi_index(tuple(matches.T), sizes)
    reduced = _subtract(cost, _potentials(cost, masses))
    columns = np.union1d(first, _smallest(reduced))
    right = scale * np.concatenate(masses)
    firsts = np.cumsum([0, *sizes[:-1]])
    for _ in range(MOST_PROGRAMS):
        place = np.array(np.unravel_index(columns, sizes)) + firsts[:, None]
        every = np.broadcast_to(np.arange(len(columns)), place.shape)
        ones = np.ones(place.size)
        table = csc_array((ones, (place.ravel(), every.ravel())), shape=(sum(sizes), len(columns)))
        found = linprog(cost.ravel()[columns], A_eq=table, b_eq=right, method="highs-ds")
        if found.status != 0:
            return matches, mass, False
        kept = found.x > ROUNDING * right.min()
        matches = np.column_stack(np.unravel_index(columns[kept], sizes))
        mass = found.x[kept] / found.x[kept].sum()
        reduced = _subtract(cost, np.split(found.eqlin.marginals, firsts[1:]))
        new = _smallest(reduced)
        new = np.setdiff1d(new[reduced.ravel()[new] < -ROUNDING], columns)
        if not len(new):
            return matches, mass, True
        columns = np.union1d(columns, new)
    return matches, mass, False


def _reduce(cost: Floats) -> Floats:
    """Return costs minus a term for each person, in units of a typical one.

    The optimal matches stay the same. Without the terms, one person far away would make all other
    costs smaller than the tolerance of the solver.
    """
    axes = range(cost.ndim)
    for axis in axes:
        cost = cost - cost.min(tuple(other for other in axes if other != axis), keepdims=True)
    positive = cost[cost > 0]
    return cost / np.median(positive) if len(positive) else cost


def _subtract(cost: Floats, potentials: Sequence[Floats]) -> Floats:
    """Return the costs minus the potential of each person."""
    for axis, potential in enumerate(potentials):
        cost = cost - potential.reshape([-1 if d == axis else 1 for d in range(cost.ndim)])
    return cost


def _potentials(cost: Floats, masses: Sequence[Floats]) -> list[Floats]:
    """Return nearly optimal potentials of each group, by Sinkhorn's algorithm."""
    potentials = [np.zeros(size) for size in cost.shape]
    for share in SMOOTHING if cost.any() else ():
        width = share * cost.mean()
        for _ in range(SMOOTHING_STEPS):
            for axis, mass in enumerate(masses):
                potentials[axis] = np.zeros(len(mass))
                left = np.moveaxis(_subtract(cost, potentials), axis, 0).reshape(len(mass), -1)
                least = left.min(1)
                sums = np.exp((least[:, None] - left) / width).sum(1)
                potentials[axis] = least + width * (np.log(mass) - np.log(sums))
    return potentials


def _smallest(reduced: Floats) -> Positions:
    """Return the flat positions of the smallest reduced costs of each person."""
    number, found = np.arange(reduced.size).reshape(reduced.shape), []
    for axis, size in enumerate(reduced.shape):
        rows = np.moveaxis(reduced, axis, 0).reshape(size, -1)
        count = min(COLUMNS, rows.shape[1])
        place = np.argpartition(rows, count - 1, axis=1)[:, :count]
        found.append(np.take_along_axis(np.moveaxis(number, axis, 0).reshape(size, -1), place, 1))
    return np.unique(np.concatenate(found, axis=None))
