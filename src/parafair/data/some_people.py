"""The entries of some people of a source, whose other entries are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from parafair.data.streamed import Source


class SomePeople:
    """Some people of a source; groups without any of them are not read.

    See `parafair.data.streamed.Source`.

    Args:
        source: The source of everybody.
        places: Positions of the people, in ascending order, at least one.
    """

    # It takes a pass.
    norm_squared: float | None = None

    def __init__(self, source: Source, places: NDArray[np.intp]) -> None:
        self.source, self.places = source, places
        self.modes = source.modes
        self.shape = (len(places), *source.shape[1:])
        self.labels = tuple(
            labels if mode or not len(labels) else labels[places]
            for mode, labels in enumerate(source.labels)
        )
        group = np.searchsorted(source.bounds, places, side="right") - 1
        self.groups, first = np.unique(group, return_index=True)
        self.bounds = np.append(first, len(places))
        self._counts = {0: source.counts(0)[places]}
        self.sizes = np.add.reduceat(self._counts[0], first)
        self.count = int(self.sizes.sum())

    def check(self) -> None:
        """Raise if the entries are not what they were."""
        self.source.check()

    def counts(self, mode: int) -> NDArray[np.int64]:
        """Return the number of entries at each index of a mode; takes a pass for the others."""
        if mode not in self._counts:
            found = np.zeros(self.shape[mode], np.int64)
            for group in range(len(self.groups)):
                (index,) = self.read(group, group + 1, [mode])
                found += np.bincount(index, minlength=len(found))
            self._counts[mode] = found
        return self._counts[mode]

    def read(self, first: int, last: int, columns: Sequence[int]) -> list[NDArray[Any]]:
        """Return columns of the entries of these people in some groups."""
        parts = [self._read(begin, end, columns) for begin, end in self._runs(first, last)]
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield groups of the source that follow each other: the first, and the one after them."""
        groups = self.groups[first:last]
        for run in np.split(groups, np.flatnonzero(np.diff(groups) > 1) + 1):
            yield int(run[0]), int(run[-1]) + 1

    def _read(self, begin: int, end: int, columns: Sequence[int]) -> list[NDArray[Any]]:
        """Return columns of these people, of some groups of the source."""
        people, *found = self.source.read(begin, end, [0, *columns])
        least, most = self.source.bounds[[begin, end]]
        own = slice(*np.searchsorted(self.places, (least, most)))
        position = np.full(most - least, -1)
        position[self.places[own] - least] = np.arange(own.start, own.stop)
        place = position[people - least]
        kept = place >= 0
        return [
            place[kept] if column == 0 else array[kept]
            for column, array in zip(columns, found, strict=True)
        ]
