"""Data of any size from a seed: every group of people is drawn when it is read, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# People of a group, which is drawn at once.
GROUP = 10_000


class SimulatedSource:
    """Entries of a tensor of low rank with noise; see `parafair.data.streamed.Source`.

    Everybody has the same number of entries, in cells that are drawn without repetition. The rows
    of the two groups of people, `groups`, differ in their means.

    Args:
        people: Number of people.
        others: Sizes of the other modes.
        entries: Entries of a person.
        rank: Number of components.
        seed: Seed of everything.
    """

    def __init__(
        self,
        people: int,
        *,
        others: tuple[int, ...] = (20, 10),
        entries: int = 20,
        rank: int = 4,
        seed: int = 0,
    ) -> None:
        self.shape = (people, *others)
        self.modes = ("person", *(f"mode_{mode}" for mode in range(1, len(self.shape))))
        self.labels: tuple[NDArray[Any], ...] = ()
        self.entries, self.rank, self.seed = entries, rank, seed
        self.count = people * entries
        self.bounds = np.append(np.arange(0, people, GROUP, dtype=np.int64), people)
        self.sizes = np.diff(self.bounds) * entries
        random = np.random.default_rng([seed, 0])
        self.factors = [random.standard_normal((size, rank)) for size in others]
        self.shift = random.standard_normal(rank)
        # Of a sample: all entries have the same distribution.
        values = self.read(0, 1, [len(self.shape)])[0]
        self.norm_squared = float(values @ values) / len(values) * self.count

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group of each person, shape (people,)."""
        return np.arange(self.shape[0]) % 2

    def check(self) -> None:
        """Nothing can change."""

    def counts(self, mode: int) -> NDArray[np.int64]:
        """Return the number of entries at each index of a mode; about equal."""
        size = self.shape[mode]
        return np.full(size, self.count // size, np.int64)

    def read(self, first: int, last: int, columns: Sequence[int]) -> list[NDArray[Any]]:
        """Return columns of the entries of some groups, drawn again."""
        drawn = [self._draw(group) for group in range(first, last)]
        return [np.concatenate([part[column] for part in drawn]) for column in columns]

    def _draw(self, group: int) -> list[NDArray[Any]]:
        """Return positions and values of a group."""
        random = np.random.default_rng([self.seed, 1 + group])
        people = np.arange(self.bounds[group], self.bounds[group + 1])
        rows = random.standard_normal((len(people), self.rank)) + (people % 2)[:, None] * self.shift
        # Steps of equal length from a random begin: no cell twice, and in order.
        cells, n = int(np.prod(self.shape[1:])), self.entries
        begin = random.integers(0, cells, (len(people), 1))
        cell = np.sort((begin + np.arange(n) * (cells // n)) % cells, axis=1).reshape(-1)
        places = np.unravel_index(cell, self.shape[1:])
        product = np.repeat(rows, n, axis=0)
        for factor, place in zip(self.factors, places, strict=True):
            product *= factor[place]
        values = product.sum(1) + 0.3 * random.standard_normal(len(cell))
        return [np.repeat(people, n), *places, values]


def write_files(source: SimulatedSource, folder: Path, *, files: int = 10) -> None:
    """Write the entries as Parquet files in no order, as they come from a log."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    names = [*source.modes, "value"]
    for number in range(files):
        writer = None
        for group in range(number, len(source.sizes), files):
            columns = source.read(group, group + 1, range(len(names)))
            order = np.random.default_rng(group).permutation(len(columns[0]))
            table = pa.table({n: c[order] for n, c in zip(names, columns, strict=True)})
            path = folder / f"log-{number:03}.parquet"
            writer = writer or ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
