"""Places that people of all groups share, such that a place reveals next to nothing of a group.

An attacker who knows who is in which place, but not whose row it sees, names the group with the
largest share in that place. With ``c_gk`` of the ``n_g`` people of group g in place k, its balanced
accuracy is ``(1 / G) * sum_k max_g c_gk / n_g``. If every place has the same share of every group,
this is chance, ``1 / G``. What it may exceed chance by is spent twice: on groups whose sizes do not
divide evenly among the places, and on people whom sharing would move furthest. They keep their own
place. Even places are only where `parafair.dependence.place_search` begins.

Matches of `parafair.dependence.barycenter` cost less if groups differ in size, but there a person
draws one of several matches: then only the distributions before the draw agree, not these people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from parafair.dependence import place_search
from parafair.dependence.barycenter import Floats, Positions

# People who are dealt to places together; more are divided into chunks.
CHUNK_PEOPLE = 500
# Times that people are dealt to the places and the places move to their people.
ROUNDS = 8
# Up to so many people, places are searched with all rounds; beyond, the time grows no further.
SEARCHED_PEOPLE = 2000
# Numbers of places that are tried once they are few enough for the leakage.
TRIED = 3
# Larger than any squared distance between points of size 1.
FORBIDDEN = 1e6


def share_places(points: Floats, groups: Positions, *, leakage: float, seed: int = 0) -> Positions:
    """Return the place of each person, from 0 on, shape (people,).

    People of a place are to get the same row. The advantage of the attacker is at most `leakage`,
    unless no number of places allows that: then everybody of a chunk is in one place.

    Args:
        points: Shape (people, columns); finite. Squared distances are costs.
        groups: The group of each person, from 0 on; none is empty. Shape (people,).
        leakage: The largest advantage over chance in balanced accuracy.
        seed: Seed of the chunks.
    """
    points = points - points.mean(0)
    points = points / max(float(np.abs(points).max()), np.finfo(np.float64).tiny)
    sizes = np.bincount(groups)
    found, used = np.empty(len(groups), np.intp), 0
    rounds = place_search.ROUNDS * SEARCHED_PEOPLE // max(SEARCHED_PEOPLE, len(groups))
    for chunk in _chunks(groups, sizes, seed):
        # The advantage is a sum over places, so each chunk gets its share.
        share = leakage * len(chunk) / len(groups)
        own = _share(points[chunk], groups[chunk], sizes, share, rounds)
        found[chunk] = own + used
        used += int(own.max()) + 1
    return found


def _shares(places: Positions, groups: Positions, sizes: Positions) -> Floats:
    """Return the share of each group in each place, shape (groups, places)."""
    counts = np.zeros((len(sizes), int(places.max()) + 1))
    np.add.at(counts, (groups, places), 1)
    return counts / sizes[:, None]


def _chunks(groups: Positions, sizes: Positions, seed: int) -> Iterator[Positions]:
    """Yield people in chunks that have about the same share of every group."""
    count = max(1, min(round(len(groups) / CHUNK_PEOPLE), int(sizes.min())))
    random = np.random.default_rng(seed)
    drawn = random.permutation(len(groups))
    order = drawn[np.argsort(groups[drawn], kind="stable")]
    # Each group is dealt in turn, so its members differ by at most one between chunks.
    turn = np.concatenate([np.arange(size) % count for size in sizes])
    yield from (np.sort(order[turn == chunk]) for chunk in range(count))


def _share(
    points: Floats, groups: Positions, sizes: Positions, leakage: float, rounds: int
) -> Positions:
    """Return the places of a chunk; the numbers of places are tried from the largest on."""
    members = [np.flatnonzero(groups == g) for g in range(len(sizes))]
    # Of an attacker who sees no place: that of the group with the largest share in the chunk.
    chance = max(len(part) / size for part, size in zip(members, sizes, strict=True)) / len(sizes)
    best, least, tried = np.zeros(len(points), np.intp), np.inf, 0
    fewest = min(map(len, members))
    for count in dict.fromkeys(max(1, fewest // k) for k in range(1, fewest + 1)):
        even = [_even_counts(len(part), count) / n for part, n in zip(members, sizes, strict=True)]
        if count > 1 and np.max(even, 0).sum() / len(sizes) - chance > leakage + 1e-12:
            continue  # too uneven wherever the larger places are
        places = _deal(points, members, count)
        shares = _shares(places, groups, sizes)
        room = leakage - (float(shares.max(0).sum()) / len(sizes) - chance)
        if room < -1e-12 and count > 1:
            continue
        places = _release_furthest(points, places, shares, room)
        cost = _cost(points, places)
        if cost < least:
            best, least = places, cost
        tried += 1
        if tried == TRIED:
            break
    found = place_search.improve_places(
        points,
        groups,
        np.asarray(np.unique(best, return_inverse=True)[1], np.intp),
        weights=1 / (len(sizes) * sizes),
        accuracy=chance + leakage,
        rounds=max(1, rounds),
    )
    return np.asarray(np.unique(found, return_inverse=True)[1], np.intp)


def _even_counts(people: int, count: int) -> Positions:
    """Return how many people each place gets, if the first places get one more."""
    return np.asarray(people // count + (np.arange(count) < people % count), np.intp)


def _deal(points: Floats, members: Sequence[Positions], count: int) -> Positions:
    """Deal the people of every group evenly to places, such that they are near.

    People and places take turns: people go to near places, and a place moves to the mean of its
    people. For two groups of equal size with a place for each pair, the first turn is optimal.
    """
    smallest = min(members, key=len)
    centers = points[smallest[np.arange(count) * len(smallest) // count]]
    places, before = np.zeros(len(points), np.intp), np.inf
    for _ in range(ROUNDS):
        new = places.copy()
        for part in members:
            new[part] = _assign(cdist(points[part], centers, "sqeuclidean"))
        cost = _cost(points, new)
        if not cost < before * (1 - 1e-6):
            break
        places, before = new, cost
        centers = _means(points, places, count)
    return places


def _assign(costs: Floats) -> Positions:
    """Return a place for each person at the least cost; numbers per place differ by at most one."""
    people, count = costs.shape
    full, rest = divmod(people, count)
    copies = np.repeat(np.arange(count), full + bool(rest))
    if rest:
        # People who do not exist fill up the last copies of the places, and no others.
        extra = np.arange(len(copies)) % (full + 1) == full
        missing = np.where(extra, 0.0, FORBIDDEN)
        wide = np.vstack([costs[:, copies], np.tile(missing, (count - rest, 1))])
    else:
        wide = costs[:, copies]
    rows, columns = linear_sum_assignment(wide)
    found = np.empty(len(wide), np.intp)
    found[rows] = copies[columns]
    return found[:people]


def _means(points: Floats, places: Positions, count: int) -> Floats:
    """Return the mean of the people of each place."""
    total = np.zeros((count, points.shape[1]))
    np.add.at(total, places, points)
    return total / np.maximum(np.bincount(places, minlength=count), 1)[:, None]


def _moves(points: Floats, places: Positions) -> Floats:
    """Return the squared move of each person to the mean of its place."""
    means = _means(points, places, int(places.max()) + 1)
    return np.asarray(np.square(points - means[places]).sum(1))


def _cost(points: Floats, places: Positions) -> float:
    return float(_moves(points, places).sum())


def _release_furthest(points: Floats, places: Positions, shares: Floats, room: float) -> Positions:
    """Give people places of their own where that saves most for the leakage it costs.

    Args:
        points: The people's points.
        places: Their places.
        shares: The share of each group in each place, shape (groups, places).
        room: The leakage that may be added.
    """
    moves = np.bincount(places, _moves(points, places), shares.shape[1])
    added = (shares.sum(0) - shares.max(0)) / len(shares)
    order = np.argsort(-moves / np.maximum(added, np.finfo(np.float64).tiny), kind="stable")
    released = order[np.cumsum(added[order]) <= room + 1e-12]
    alone = np.isin(places, released)
    found = places.copy()
    found[alone] = shares.shape[1] + np.arange(int(alone.sum()))
    return found
