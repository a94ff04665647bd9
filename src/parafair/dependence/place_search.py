"""A search for places that people of all groups share, at the least cost for a leakage.

With ``c_gk`` of the ``n_g`` people of group g in place k, a place adds ``max_g c_gk / (G n_g)`` to
the best attacker's accuracy, and the squared distances of its people to their mean to the cost. The
search minimizes cost plus a price times accuracy. A price that is too low gives places that reveal
too much, so the price goes up and down in smaller and smaller steps, and whenever the places reveal
little enough, what is left of the leakage is spent. The best places that were met are kept.

Four kinds of changes are tried: a person goes to another place or to one of its own; two people of
a group swap places; a place is dissolved; two places become one. Whole tables of their effects are
computed at once. Those that help are made one after the other, if they still help then.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from math import inf

import numpy as np
from scipy.spatial.distance import cdist

from parafair.dependence.barycenter import Floats, Positions

# Times that the price changes, and passes at each price.
ROUNDS, PASSES = 10, 3
# The first price, as a share of the cost per leakage, and the first step by which it changes.
FIRST_PRICE, STEP = 0.2, 1.5
# Lower prices at which the rest of the leakage is spent, and passes at each.
SPENDING, SPENDING_PASSES = (0.5, 0.1), 3
# Changes of less than this, in points of size 1, are rounding errors.
LEAST = 1e-12

Change = tuple[Positions, Positions]


def improve_places(
    points: Floats,
    groups: Positions,
    places: Positions,
    *,
    weights: Floats,
    accuracy: float,
    rounds: int = ROUNDS,
) -> Positions:
    """Return places that cost no more than the given ones, shape (people,).

    Args:
        points: Shape (people, columns), of size 1 about. Squared distances are costs.
        groups: The group of each person, from 0 on. Shape (people,).
        places: The place of each person, from 0 on, with at most this accuracy.
        weights: What one person of each group adds to the accuracy, ``1 / (G n_g)``.
        accuracy: The largest balanced accuracy of an attacker who sees a place.
        rounds: Times that the price of the accuracy changes.
    """
    state = _State(points, groups, places, weights)
    best, cost = state.copy(), state.cost
    # Accuracy beyond that of a single place; at least that of one person.
    spent = max(accuracy - float(state.shares().sum(0).max()), float(weights.min()))
    price = FIRST_PRICE * cost / spent
    for k in range(rounds if cost > LEAST else 0):
        for _ in range(PASSES):
            if not state.improve(price):
                break
        step = 1 + (STEP - 1) * (1 - k / rounds)
        if state.accuracy > accuracy + LEAST:
            price *= step
            continue
        found = state.copy()
        for share in SPENDING:
            for _ in range(SPENDING_PASSES):
                if not found.improve(share * price, accuracy):
                    break
        if found.cost < cost:
            best, cost, state = found, found.cost, found.copy()
        price /= step
    return best.places


class _State:
    """Places, with the sums over their people. There are as many places as people; some are empty.

    Attributes:
        places: The place of each person, shape (people,).
        counts: People of each group in each place, shape (places, groups).
        sums: Sums of the points in each place, shape (places, columns).
        squares: Sums of the squared lengths of the points in each place, shape (places,).
    """

    def __init__(self, points: Floats, groups: Positions, places: Positions, weights: Floats):
        self._points, self._groups, self._weights = points, groups, weights
        self._lengths = np.square(points).sum(1)
        self.places = places.copy()
        self.counts = np.zeros((len(points), len(weights)))
        self.sums = np.zeros_like(points)
        self.squares = np.zeros(len(points))
        np.add.at(self.counts, (places, groups), 1)
        np.add.at(self.sums, places, points)
        np.add.at(self.squares, places, self._lengths)

    def copy(self) -> _State:
        """Return a state that changes for itself."""
        other = copy(self)
        other.places, other.counts = self.places.copy(), self.counts.copy()
        other.sums, other.squares = self.sums.copy(), self.squares.copy()
        return other

    def shares(self, at: Positions | slice = slice(None)) -> Floats:
        """Return what each group adds to the accuracy in each place if it is named there."""
        return np.asarray(self.counts[at] * self._weights)

    def costs(self, at: Positions | slice = slice(None)) -> Floats:
        """Return the squared distances to the mean in each place."""
        sizes = np.maximum(self.counts[at].sum(1), 1)
        return np.asarray(self.squares[at] - np.square(self.sums[at]).sum(1) / sizes)

    @property
    def cost(self) -> float:
        return float(self.costs().sum())

    @property
    def accuracy(self) -> float:
        return float(self.shares().max(1).sum())

    def improve(self, price: float, most: float = inf) -> int:
        """Make changes that lower the cost plus the price of the accuracy; return how many.

        Args:
            price: The price.
            most: The largest accuracy that a change may lead to.
        """
        made, room = 0, most - self.accuracy + LEAST
        for proposed in (self._moves, self._swaps, self._dissolved, self._merged):
            for people, to in proposed(price):
                more = self._change(people, to, price, room)
                if more is not None:
                    made, room = made + 1, room - more
        return made

    def _change(self, people: Positions, to: Positions, price: float, room: float) -> float | None:
        """Move people; return the added accuracy, or None if that does not help and is undone."""
        before = self.places[people]
        at = np.unique(np.concatenate([before, to]))
        kept = self.counts[at], self.sums[at], self.squares[at]
        cost, accuracy = float(self.costs(at).sum()), float(self.shares(at).max(1).sum())
        for places, sign in ((before, -1), (to, 1)):
            np.add.at(self.counts, (places, self._groups[people]), sign)
            np.add.at(self.sums, places, sign * self._points[people])
            np.add.at(self.squares, places, sign * self._lengths[people])
        self.places[people] = to
        more = float(self.shares(at).max(1).sum()) - accuracy
        if float(self.costs(at).sum()) - cost + price * more < -LEAST and more <= room:
            return more
        self.counts[at], self.sums[at], self.squares[at] = kept
        self.places[people] = before
        return None

    def _used(self) -> tuple[Positions, Floats, Floats]:
        """Return the places with people, their sizes and their means."""
        used = np.flatnonzero(self.counts.any(1))
        sizes = self.counts[used].sum(1)
        return used, sizes, self.sums[used] / sizes[:, None]

    def _empty(self) -> Positions:
        return np.flatnonzero(~self.counts.any(1))

    def _moves(self, price: float) -> Iterator[Change]:
        """Yield people who go to another place, or to one of their own."""
        used, sizes, means = self._used()
        everybody, groups = np.arange(len(self.places)), self._groups
        at = np.searchsorted(used, self.places)
        apart, shares = cdist(self._points, means, "sqeuclidean"), self.shares(used)
        largest, own = shares.max(1), self._weights[groups]
        without = shares[at]
        without[everybody, groups] -= own
        shared = sizes[at] > 1
        saved = apart[everybody, at] * sizes[at] / np.maximum(sizes[at] - 1, 1) * shared
        saved += price * (largest[at] - without.max(1))
        joined = np.maximum(shares[:, groups].T + own[:, None] - largest, 0)
        changes = apart * (sizes / (sizes + 1)) + price * joined
        changes[everybody, at] = inf
        alone = np.where(shared, price * own, inf)
        changes = np.column_stack([changes, alone]) - saved[:, None]
        to = changes.argmin(1)
        for i in _helpful(changes[everybody, to]):
            new = self._empty()[:1] if to[i] == len(used) else used[to[i : i + 1]]
            if len(new):
                yield np.array([i]), new

    def _swaps(self, price: float) -> Iterator[Change]:
        """Yield pairs of a group who swap places, which changes no accuracy."""
        sizes = self.counts.sum(1)
        for group in range(len(self._weights)):
            people = np.flatnonzero(self._groups == group)
            points, at = self._points[people], self.places[people]
            each = 1 / sizes[at]
            # Products of the mean of i's place with the point of j.
            products = (self.sums[at] * each[:, None]) @ points.T
            gained = products - np.diag(products)[:, None]
            changes = -2 * (gained + gained.T) - cdist(points, points, "sqeuclidean") * (
                each[:, None] + each
            )
            changes[at[:, None] == at] = 0.0
            other = changes.argmin(1)
            for i in _helpful(changes[np.arange(len(people)), other]):
                pair = people[[i, other[i]]]
                yield pair, self.places[pair[::-1]]

    def _dissolved(self, price: float) -> Iterator[Change]:
        """Yield places whose people get places of their own; one of them stays."""
        shares = self.shares()
        for k in _helpful(price * (shares.sum(1) - shares.max(1)) - self.costs()):
            people, empty = np.flatnonzero(self.places == k)[1:], self._empty()
            if 0 < len(people) <= len(empty):
                yield people, empty[: len(people)]

    def _merged(self, price: float) -> Iterator[Change]:
        """Yield places whose people go to another one together."""
        used, sizes, means = self._used()
        shares = self.shares(used)
        largest = shares.max(1)
        together = (shares[:, None] + shares).max(2) - largest[:, None] - largest
        halves = sizes[:, None] * sizes / (sizes[:, None] + sizes)
        changes = cdist(means, means, "sqeuclidean") * halves + price * together
        np.fill_diagonal(changes, 0.0)
        other = changes.argmin(1)
        for k in _helpful(changes[np.arange(len(used)), other]):
            people, to = np.flatnonzero(self.places == used[k]), used[other[k]]
            if len(people) and self.counts[to].any():
                yield people, np.full(len(people), to)


def _helpful(changes: Floats) -> Positions:
    """Return the positions of negative changes, the most helpful first."""
    order = np.argsort(changes, kind="stable")
    return order[changes[order] < -LEAST]
