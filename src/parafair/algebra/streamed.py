"""Observed entries that are read in tiles: one pass over the data is one stream of tiles.

A tile has all entries of a range of consecutive people, the first mode. Sums for the people are
computed tile by tile; sums for the other modes are added up. No more than the tiles that are being
read and used is in memory, beside the factors and sums of their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NoReturn

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from parafair.algebra.cells import MOST_CELLS, PIECE, Cells, run_ends
from parafair.algebra.cp_tensor import Factors
from parafair.algebra.row_grams import RowGrams, pair_products
from parafair.algebra.sparse import SparseObservations


@dataclass(frozen=True, eq=False)
class Tile(SparseObservations):
    """The entries of consecutive people, in ascending order of their positions.

    Attributes:
        indices: Positions of the entries, shape (order, count); those of people begin at 0.
        values: Shape (count,).
        shape: Sizes of the modes; of the first, the number of people in the tile.
        first: The position of its first person.
    """

    first: int

    @property
    def rows(self) -> slice:
        """Positions of its people."""
        return slice(self.first, self.first + self.shape[0])

    @cached_property
    def cells(self) -> Cells | None:
        """The entries by cell, if all combinations of the other modes are few."""
        return cells_of_sorted(self) if has_few_cells(self.shape) else None

    def part(self, factors: Factors) -> list[Tensor]:
        """Return the factors for its people."""
        return [factors[0][:, self.rows], *factors[1:]]


def has_few_cells(shape: tuple[int, ...]) -> bool:
    """Whether all combinations of the other modes are few enough for tables of them."""
    return prod(shape[1:]) <= MOST_CELLS


def cells_of_sorted(tile: Tile) -> Cells:
    """Return the entries of a tile by cell, with all combinations as cells.

    Unlike `Cells.of`, this needs no sort by person, and the sort by cell is one count.
    """
    sizes, device = tile.shape[1:], tile.values.device
    count, rows = prod(sizes), tile.indices[0]
    cell = torch.zeros_like(rows)
    for index, size in zip(tile.indices[1:], sizes, strict=True):
        cell = cell * size + index
    pieces = -(-tile.shape[0] // PIECE)
    bags = torch.div(rows, PIECE, rounding_mode="floor").mul_(count).add_(cell)
    order = counting_order(bags, pieces * count)
    every = torch.arange(count, device=device)
    return Cells(
        0,
        torch.stack(torch.unravel_index(every, sizes)),
        sizes,
        cell,
        tile.values,
        run_ends(torch.bincount(rows, minlength=tile.shape[0])),
        order,
        rows[order],
        run_ends(torch.bincount(bags, minlength=pieces * count)),
    )


def counting_order(keys: Tensor, size: int) -> Tensor:
    """Return the stable order of whole numbers below `size`; on a CPU in linear time."""
    if keys.device.type != "cpu":
        return torch.argsort(keys, stable=True)
    # A row with a column per key, stored by column: SciPy counts instead of comparing.
    kind = np.int32 if max(size, len(keys)) < 2**31 else np.int64
    columns, ends = keys.numpy().astype(kind), np.array([0, len(keys)], kind)
    places = csr_matrix((np.arange(len(keys)), columns, ends), shape=(1, size)).tocsc().data
    return torch.from_numpy(places)


@dataclass(frozen=True, eq=False)
class StreamedObservations:
    """Entries that are read in tiles.

    Attributes:
        shape: Sizes of the modes; people are the first.
        like: An empty tensor with the dtype and device of the entries.
        count: Number of observed entries.
        norm_squared: The sum of their squares.
        stream: Returns a new pass over all tiles, in order; every person is in one of them.
        counted: Returns the number of entries at each index of a mode.
        most: The largest number of entries of a tile.
    """

    shape: tuple[int, ...]
    like: Tensor
    count: int
    norm_squared: float
    stream: Callable[[], Iterator[Tile]]
    counted: Callable[[int], Tensor]
    most: int

    @property
    def values(self) -> NoReturn:
        """The entries are never in memory all at once."""
        raise not_in_memory()

    def sums(self, factors: Factors) -> StreamedSums:
        """Return the sums for these factors."""
        return StreamedSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over all entries, in one pass."""
        return sum(
            tile.residual_squared([factors[0][tile.rows], *factors[1:]]) for tile in self.stream()
        )

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients, in one pass."""
        error = factors[0].new_zeros(len(factors[0]), dtype=torch.float64)
        slopes = [torch.zeros_like(factor) for factor in factors]
        for tile in self.stream():
            found, (own, *others) = tile.error_and_slopes(tile.part(factors))
            error += found
            slopes[0][:, tile.rows] = own
            for total, slope in zip(slopes[1:], others, strict=True):
                total += slope
        return error, slopes

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        return self.counted(mode).to(self.like.device)

    def working_memory(self, rank: int) -> int:
        """Return the size of the sums of the largest other mode; tiles are there once."""
        columns = rank + rank * (rank + 1) // 2
        cells = prod(self.shape[1:]) if has_few_cells(self.shape) else 0
        return columns * max(cells, *self.shape[1:]) + rank * self.shape[0]


class StreamedSums:
    """Sums over entries that are read in tiles.

    With few cells, one pass serves all other modes, until the factor of the people changes.
    Otherwise there is a pass for each of them. People take one pass for ``M``, and one whenever
    their Gram matrices are used: these are formed, used and dropped tile by tile.
    """

    def __init__(self, entries: StreamedObservations, factors: Factors) -> None:
        self.entries = entries
        self.factors = list(factors)
        self._contracted: tuple[Cells, Tensor, Tensor] | None = None
        self._later: dict[int, tuple[Tensor, Tensor]] = {}

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        if mode:
            return self._of_mode(mode)[0]
        found = torch.zeros_like(self.factors[0])
        for tile in self.entries.stream():
            found[:, tile.rows] = tile.sums(tile.part(self.factors)).target(0)
        return found

    def gram(self, mode: int) -> RowGrams:
        """Return one Gram matrix per row."""
        batch, n, rank = self.factors[mode].shape
        if mode:
            return RowGrams.of(self._of_mode(mode)[1], rank)
        factors = list(self.factors)

        def read() -> Iterator[tuple[slice, Tensor]]:
            for tile in self.entries.stream():
                for rows, part in tile.sums(tile.part(factors)).gram(0).parts():
                    yield slice(tile.first + rows.start, tile.first + rows.stop), part

        return StreamedGrams(read, self.entries.like, (batch, n, rank))

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode; the sums of that mode do not change."""
        self.factors[mode] = factor
        if mode == 0:
            self._contracted = None
        self._later = {own: sums for own, sums in self._later.items() if own == mode}

    def _of_mode(self, mode: int) -> tuple[Tensor, Tensor]:
        """Return ``M`` and the upper triangles of ``G`` of another mode than that of people."""
        if mode not in self._later:
            few = has_few_cells(self.entries.shape)
            self._later[mode] = self._by_cell(mode) if few else self._by_pass(mode)
        return self._later[mode]

    def _by_pass(self, mode: int) -> tuple[Tensor, Tensor]:
        """Return sums over the tiles, in one pass."""
        batch, size, rank = self.factors[mode].shape
        target = torch.zeros_like(self.factors[mode])
        triangles = target.new_zeros(batch, size, rank * (rank + 1) // 2)
        for tile in self.entries.stream():
            sums = tile.sums(tile.part(self.factors))
            target += sums.target(mode)
            for rows, part in sums.gram(mode).parts():
                triangles[:, rows] += part
        return target, triangles

    def _by_cell(self, mode: int) -> tuple[Tensor, Tensor]:
        """Return sums over the cells, from one pass for all modes."""
        if self._contracted is None:
            found: tuple[Cells, Tensor, Tensor] | None = None
            for tile in self.entries.stream():
                assert tile.cells is not None
                one, two = tile.cells.contracted(self.factors[0][:, tile.rows])
                if found is not None:
                    one, two = one.add_(found[1]), two.add_(found[2])
                found = (tile.cells, one, two)
            assert found is not None
            self._contracted = found
        cells, target, pairs = self._contracted
        factors = list(self.factors)
        products = [factors[0], *(pair_products(factor) for factor in factors[1:])]
        return cells.sums(target, factors, mode), cells.sums(pairs, products, mode)


class StreamedGrams(RowGrams):
    """Gram matrices of the people, formed from a new pass over the tiles whenever they are used."""

    def __init__(
        self,
        read: Callable[[], Iterator[tuple[slice, Tensor]]],
        like: Tensor,
        shape: tuple[int, int, int],
        changes: tuple[Callable[[Tensor], Tensor], ...] = (),
    ) -> None:
        super().__init__(_no_random_access, like, shape, keep=False)
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_changes", changes)

    _read: Callable[[], Iterator[tuple[slice, Tensor]]]
    _changes: tuple[Callable[[Tensor], Tensor], ...]

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield some rows at a time, and their upper triangles, in one pass."""
        for rows, part in self._read():
            for change in self._changes:
                part = change(part)
            yield rows, part

    def changed(self, change: Callable[[Tensor], Tensor], *, batch: int | None = None) -> RowGrams:
        """Return the matrices after a change of their triangles, for each part at its time."""
        shape = (self.shape[0] if batch is None else batch, *self.shape[1:])
        return StreamedGrams(self._read, self.like, shape, (*self._changes, change))


def _no_random_access(rows: slice) -> NoReturn:
    raise AssertionError("streamed Gram matrices have no rows of their own; use parts()")


def not_in_memory() -> ValueError:
    """Return the error for an operation that needs all entries at once."""
    return ValueError(
        "X is streamed from files and never in memory as a whole, which this needs; use FairCP.fit "
        "with method='none' or 'invariant', take some people with X.take(0, positions), or go "
        "through X.parts()"
    )
