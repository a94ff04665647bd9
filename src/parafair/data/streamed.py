"""StreamedData: a tensor whose entries stay in files and are read in tiles of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from parafair.algebra.streamed import StreamedObservations, Tile, not_in_memory
from parafair.data.devices import check_device, resolve_dtype
from parafair.data.labels import check_positions
from parafair.data.modes import complete_labels, complete_modes
from parafair.data.some_people import SomePeople
from parafair.data.tensor_data import TensorData
from parafair.team import ALONE, Share, Team

# Entries of a tile, unless a limit of memory says otherwise: larger tiles are not faster.
TILE = 2**20

# Changes the values of entries, given their positions, shape (order, count).
Change = Callable[[Tensor, Tensor], Tensor]


class Source(Protocol):
    """Where the entries come from: groups of consecutive people, in ascending order.

    Attributes:
        shape: Sizes of the modes; people are the first.
        modes: Names of the modes.
        labels: Labels of each mode; empty for positions.
        count: Number of entries.
        bounds: The first person of each group, then the number of people, shape (groups + 1,).
        sizes: Number of entries of each group, shape (groups,).
    """

    shape: tuple[int, ...]
    modes: tuple[str, ...]
    labels: tuple[NDArray[Any], ...]
    count: int
    bounds: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def norm_squared(self) -> float | None:
        """The sum of squares of the entries; None if it takes a pass."""

    def check(self) -> None:
        """Raise if the entries are not what they were; called before every pass."""

    def counts(self, mode: int) -> NDArray[np.int64]:
        """Return the number of entries at each index of a mode."""

    def read(self, first: int, last: int, columns: Sequence[int]) -> list[NDArray[Any]]:
        """Return columns of the entries of groups `first` to `last - 1`, one after the other.

        Args:
            first: The first group.
            last: The group after the last.
            columns: The modes whose positions are wanted; the number of modes means the values.
        """


class StreamedData(TensorData):
    """A tensor whose entries are read from a source in every pass; see `TensorData.from_parquet`.

    It is sparse, and people are its first mode. What needs all entries in memory is an error.

    Args:
        source: Where the entries come from.
        memory: The memory that a fit may use, in bytes; None for no limit.
    """

    def __init__(self, source: Source, *, memory: int | None = None) -> None:
        modes = complete_modes(source.modes, len(source.shape))
        self._set("shape", tuple(source.shape))
        self._set("modes", modes)
        self._set("labels", complete_labels(source.labels, self.shape, modes))
        self._set("source", source)
        self._set("memory", memory)
        self._set("tile", TILE)
        self._set("like", torch.empty(0, dtype=torch.float64, device="cpu"))
        self._set("change", None)
        if source.norm_squared is not None:
            self._set("norm_squared", float(source.norm_squared))

    source: Source
    memory: int | None
    tile: int
    like: Tensor
    change: Change | None

    def _with(self, **values: Any) -> StreamedData:
        found = copy(self)
        found.__dict__.pop("observations", None)
        if {"change", "source"} & set(values):
            found.__dict__.pop("norm_squared", None)
        for name, value in values.items():
            found._set(name, value)
        return found

    def __repr__(self) -> str:
        return super().__repr__().replace("sparse", "streamed")

    @property
    def is_streamed(self) -> bool:
        """Whether entries are read in every pass: yes."""
        return True

    @property
    def is_sparse(self) -> bool:
        """Whether it is a list of entries: yes."""
        return True

    @property
    def zeros_count(self) -> bool:
        """Whether entries that are not in the files are zeros: no, they are missing."""
        return False

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the entries."""
        return self.like.dtype

    @cached_property
    def norm_squared(self) -> float:
        """The sum of squares of the entries; takes a pass if they are changed, or of some people.

        It is computed in double precision, whatever that of the tiles is.
        """
        double = self.to(dtype=torch.float64)
        return sum(float(tile.values.square().sum()) for tile in double.stream())

    @property
    def norm(self) -> float:
        """The root of the sum of squares of the entries."""
        return float(self.norm_squared**0.5)

    @property
    def observed(self) -> int:
        """Number of observed entries."""
        return self.source.count

    @property
    def values(self) -> NoReturn:
        """The entries are never in memory all at once."""
        raise not_in_memory()

    @property
    def indices(self) -> NoReturn:
        """Neither are their positions."""
        raise not_in_memory()

    cells = entries = values

    @cached_property
    def observations(self) -> StreamedObservations:
        """The observed entries, arranged for sums over them."""
        return StreamedObservations(
            self.shape,
            self.like,
            self.observed,
            self.norm_squared,
            self.stream,
            lambda mode: torch.tensor(self.source.counts(mode), dtype=torch.long, device="cpu"),
            max(int(self.source.sizes.max()), min(self.tile, self.observed)),
        )

    def observed_per(self, mode: int | str) -> NDArray[np.int64]:
        """Return the number of observed entries of each label of a mode."""
        return self.source.counts(self.find_mode(mode))

    def to(
        self, device: torch.device | str | None = None, dtype: str | torch.dtype | None = None
    ) -> StreamedData:
        """Return the data with tiles on another device or in another precision."""
        check_device(device)
        like = self.like.to(device=device, dtype=resolve_dtype(dtype))
        return self if like is self.like else self._with(like=like)

    def with_memory(self, limit: int) -> StreamedData:
        """Return the data for fits that use at most so many bytes."""
        return self._with(memory=limit)

    def with_tile(self, entries: int) -> StreamedData:
        """Return the data with tiles of about so many entries."""
        return self._with(tile=entries)

    def with_change(self, change: Change, team: Team = ALONE) -> StreamedData:
        """Return the data with values that are changed whenever they are read; takes one pass.

        Args:
            change: The change.
            team: All processes that have this data; each reads a share of it.
        """
        found = self._with(change=change)
        return found._with(norm_squared=team.add(found.turn(team)[0].norm_squared))

    def only(self, places: NDArray[np.intp]) -> StreamedData:
        """Return the data of some people, whose entries are still read in tiles.

        Args:
            places: Their positions in ascending order.
        """
        source = SomePeople(self.source, places)
        labels = (self.labels[0][places], *self.labels[1:])
        return self._with(source=source, shape=source.shape, labels=labels)

    def turn(self, team: Team) -> tuple[StreamedData, Share | None]:
        """Return consecutive people whose entries this process reads, and who they are.

        Together, the processes read those of everybody once; a process alone reads them all, and
        its share is None.
        """
        if team.is_alone:
            return self, None
        n = self.shape[0]
        places = np.arange(team.rank * n // team.size, (team.rank + 1) * n // team.size)
        return self.only(places), Share(team, n, places)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first group of each tile, and the one after its last."""
        found, begin, size = [], 0, 0
        for group, entries in enumerate(self.source.sizes.tolist()):
            if group > begin and size + entries > self.tile:
                found.append((begin, group))
                begin, size = group, 0
            size += entries
        return [*found, (begin, len(self.source.sizes))]

    def stream(self) -> Iterator[Tile]:
        """Yield all tiles in order; the next one is read and arranged while one is in use."""
        self.source.check()
        with ThreadPoolExecutor(1) as reader:
            following = None
            for first, last in self.ranges:
                upcoming = reader.submit(self._read, first, last)
                if following is not None:
                    yield following.result()
                following = upcoming
                del upcoming
            if following is not None:
                yield following.result()

    def _read(self, first: int, last: int) -> Tile:
        *positions, values = self.source.read(first, last, range(self.order + 1))
        begin, end = int(self.source.bounds[first]), int(self.source.bounds[last])
        # Converted one by one: no second copy of all of them is made.
        indices = torch.empty((self.order, len(values)), dtype=torch.long, device="cpu")
        for row, own in zip(indices, positions, strict=True):
            row.copy_(torch.from_numpy(own))
        indices[0] -= begin
        found = torch.from_numpy(values)
        if self.change is not None:
            found = self.change(indices, found)
        tile = Tile(
            indices.to(self.like.device),
            found.to(self.like),
            (end - begin, *self.shape[1:]),
            first=begin,
        )
        tile.cells  # noqa: B018  (arranged by the thread that reads)
        return tile

    def parts(self) -> Iterator[TensorData]:
        """Yield the data of consecutive people in memory, all of them one after the other."""
        for tile in self.stream():
            labels = (self.labels[0][tile.rows], *self.labels[1:])
            yield TensorData(tile.values, tile.indices, tile.shape, self.modes, labels)

    def column(self, number: int) -> Iterator[NDArray[Any]]:
        """Yield the positions in a mode in pieces, or the values as they are in the source.

        Args:
            number: The mode; the number of modes means the values.
        """
        self.source.check()
        for first, last in self.ranges:
            yield self.source.read(first, last, [number])[0]

    def take(self, mode: int | str, positions: ArrayLike) -> TensorData:
        """Return the data of some people in memory, in the order given; takes one pass.

        Args:
            mode: The mode of the people, by number or name.
            positions: Whole numbers from 0 on, each at most once, or one true or false per label.
        """
        if self.find_mode(mode) != 0:
            raise ValueError(
                f"mode must be that of the people, {self.modes[0]!r}, for data that is streamed "
                f"by person; got {mode!r}. Sort the data by that mode instead"
            )
        places = check_positions("positions", positions, self.shape[0])
        order = np.argsort(places)
        ordered, found = places[order], []
        for tile in self.stream():
            begin, end = np.searchsorted(ordered, (tile.rows.start, tile.rows.stop))
            if begin < end:
                new = tile.indices.new_full((tile.shape[0],), -1)
                own = torch.from_numpy(ordered[begin:end] - tile.first).to(new.device)
                new[own] = torch.from_numpy(order[begin:end]).to(new)
                along = new[tile.indices[0]]
                kept = along >= 0
                indices = tile.indices[:, kept]
                indices[0] = along[kept]
                found.append((indices, tile.values[kept]))
        labels = (self.labels[0][places], *self.labels[1:])
        indices, values = (torch.cat(own, -1) for own in zip(*found, strict=True))
        shape = (len(places), *self.shape[1:])
        return TensorData(values, indices, shape, self.modes, labels)

    def sample(self, people: int, seed: int = 0) -> TensorData:
        """Return the data of a random sample of people in memory; everybody if they are few."""
        return self.take(0, drawn_people(self.shape[0], people, seed))


def drawn_people(everybody: int, people: int, seed: int) -> NDArray[np.intp]:
    """Return the positions of a random sample of people, in ascending order."""
    return np.sort(np.random.RandomState(seed % 2**32).permutation(everybody)[:people])
