"""Sums over entries that share few combinations of the other modes: many people, few cells.

A cell is a combination of indices of all modes but the longest. Products of the other factors'
rows are computed once for each cell, not once for each entry. What is left are sums of rows of
small tables, without arithmetic on single entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.devices import tile_of
from parafair.algebra.row_grams import RowGrams, pair_products
from parafair.algebra.segments import rows_product

# Cells are worth their tables if there are no more than this, and this many entries each.
MOST_CELLS, LEAST_ENTRIES = 2**16, 4

# Consecutive rows whose entries are also sorted by cell, and how many such pieces are computed at
# once: on a CPU, what is computed from them must fit into the cache.
PIECE = 2048
PIECES = {"cpu": 1, "cuda": 256}


@dataclass(frozen=True, eq=False)
class Cells:
    """Entries sorted by the longest mode, with the cell of each.

    Attributes:
        mode: The longest mode.
        places: Indices of each cell in the other modes, in order, shape (order - 1, cells).
        sizes: Sizes of the other modes.
        cell: The cell of each entry, shape (count,).
        values: The entries, shape (count,).
        ends: 0, then the end of each row's entries, shape (rows + 1,).
        sorted: Within each piece of `PIECE` rows, the entries by cell, shape (count,).
        owner: The row of each of them, shape (count,).
        bounds: 0, then the end of every cell's entries in every piece, (pieces * cells + 1,).
    """

    mode: int
    places: Tensor
    sizes: tuple[int, ...]
    cell: Tensor
    values: Tensor
    ends: Tensor
    sorted: Tensor
    owner: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, indices: Tensor, values: Tensor, shape: Sequence[int]) -> Cells | None:
        """Return the entries by cell; None if there are too many cells for it to be worth while.

        Args:
            indices: Shape (order, count).
            values: Shape (count,).
            shape: Sizes of the modes.
        """
        mode = max(range(len(shape)), key=lambda m: shape[m])
        others = [m for m in range(len(shape)) if m != mode]
        sizes = tuple(shape[m] for m in others)
        if prod(sizes) >= 2**62:
            return None
        flat = torch.zeros_like(indices[0])
        for m in others:
            flat = flat * shape[m] + indices[m]
        distinct, cell = torch.unique(flat, return_inverse=True)
        if len(distinct) > min(MOST_CELLS, len(values) // LEAST_ENTRIES):
            return None
        order = torch.argsort(indices[mode], stable=True)
        rows, cell = indices[mode][order], cell[order]
        counts = torch.bincount(rows, minlength=shape[mode])
        piece = rows // PIECE
        pieces = -(-shape[mode] // PIECE)
        bags = piece * len(distinct) + cell
        by_cell = torch.argsort(bags, stable=True)
        filled = torch.bincount(bags, minlength=pieces * len(distinct))
        return cls(
            mode,
            torch.stack(torch.unravel_index(distinct, sizes)),
            sizes,
            cell,
            values[order],
            run_ends(counts),
            by_cell,
            rows[by_cell],
            run_ends(filled),
        )

    @cached_property
    def _starts(self) -> list[int]:
        """The first entry of each piece of rows, and the number of all."""
        return [*self.ends[:-1:PIECE].tolist(), len(self.values)]

    def target(self, factors: Factors) -> Tensor:
        """Return ``M`` of the longest mode, shape (batch, n, rank)."""
        found = _bags(self._table(factors), self.cell, self.ends, self.values)
        return _members(found, factors)

    def grams(self, factors: Factors) -> RowGrams:
        """Return the Gram matrices of the rows of the longest mode."""
        shape = factors[self.mode].shape
        table = self._table([pair_products(f) if m != self.mode else f for m, f in _each(factors)])

        def form(rows: slice) -> Tensor:
            ends = self.ends[rows.start : rows.stop + 1]
            first, last = int(ends[0]), int(ends[-1])
            found = _bags(table, self.cell[first:last], ends - first)
            return _members(found, factors)

        return RowGrams(form, self.values[:0], (shape[0], shape[1], shape[2]))

    def contracted(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return sums over the longest mode's rows, for each cell.

        Args:
            factor: The factor of the longest mode, shape (batch, n, rank).

        Returns:
            The sums of the rows times the entries, shape (cells, batch * rank), and those of the
            products of all pairs of columns, shape (cells, batch * pairs).
        """
        values = self.values[self.sorted]
        target: Tensor | None = None
        pairs: Tensor | None = None
        for rows, entries, bags in self._pieces():
            some = factor[:, rows]
            owner = self.owner[entries] - rows.start
            one = self._by_cell(_wide(some), owner, bags, values[entries])
            two = self._by_cell(_wide(pair_products(some)), owner, bags)
            target = one if target is None else target.add_(one)
            pairs = two if pairs is None else pairs.add_(two)
        assert target is not None
        assert pairs is not None
        return target, pairs

    def sums(self, contracted: Tensor, factors: Factors, mode: int) -> Tensor:
        """Return the sums of another mode, shape (batch, size, columns).

        Args:
            contracted: Sums for each cell, shape (cells, batch * columns).
            factors: Factors or products of their columns; that of this and of the longest mode are
                not used.
            mode: The mode.
        """
        kept = [m for m in range(len(factors)) if m != self.mode]
        at = kept.index(mode)
        for place, other in zip(self.places, kept, strict=True):
            if other != mode:
                contracted = contracted * _wide(factors[other]).index_select(0, place)
        order = torch.argsort(self.places[at], stable=True)
        counts = torch.bincount(self.places[at], minlength=self.sizes[at])
        return _members(_bags(contracted, order, run_ends(counts)), factors)

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients; each entry is read once."""
        own, batch = factors[self.mode], len(factors[self.mode])
        table = self._table(factors)
        tables = table.unflatten(1, (batch, -1)).unbind(1)
        slopes: list[Tensor] = [torch.empty_like(f) for f in factors]
        error = own.new_zeros(batch, dtype=torch.float64)
        contracted = torch.zeros_like(table).unflatten(1, (batch, -1))
        for rows, entries, bags in self._pieces():
            ends = self.ends[rows.start : rows.stop + 1]
            owner = torch.repeat_interleave(ends.diff(), output_size=entries.stop - entries.start)
            cell, by_cell = self.cell[entries], self.sorted[entries] - entries.start
            sorted_owner = self.owner[entries] - rows.start
            for member, rest in enumerate(tables):
                some = own[member, rows]
                errors = (some.index_select(0, owner) * rest.index_select(0, cell)).sum(-1)
                errors -= self.values[entries]
                error[member] += torch.linalg.vector_norm(errors, dtype=torch.float64).square()
                slopes[self.mode][member, rows] = _bags(rest, cell, ends - entries.start, errors)
                contracted[:, member] += self._by_cell(some, sorted_owner, bags, errors[by_cell])
        for mode in range(len(factors)):
            if mode != self.mode:
                slopes[mode] = self.sums(contracted.flatten(1), factors, mode)
        return error, slopes

    def _table(self, factors: Factors) -> Tensor:
        """Return the products of the other factors' rows for each cell, (cells, batch * rank)."""
        others = [_wide(factor) for mode, factor in _each(factors) if mode != self.mode]
        return rows_product(others, self.places)

    def _pieces(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """Yield rows, their entries, and the bounds of the cells of each of their pieces."""
        cells, rows = self.places.shape[1], len(self.ends) - 1
        at_once = tile_of(PIECES, self.values)
        for piece in range(0, len(self._starts) - 1, at_once):
            last = min(piece + at_once, len(self._starts) - 1)
            entries = slice(self._starts[piece], self._starts[last])
            bounds = self.bounds[piece * cells : last * cells + 1] - entries.start
            yield slice(piece * PIECE, min(last * PIECE, rows)), entries, bounds

    def _by_cell(
        self, table: Tensor, owner: Tensor, bags: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return sums of rows for each cell, over some pieces."""
        found = _bags(table, owner, bags, weights)
        return found.reshape(-1, self.places.shape[1], table.shape[1]).sum(0)


def _each(factors: Factors) -> list[tuple[int, Tensor]]:
    return list(enumerate(factors))


def run_ends(counts: Tensor) -> Tensor:
    """Return 0, then the end of each of several runs of these lengths."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _wide(factor: Tensor) -> Tensor:
    """Return members of the batch as columns, shape (size, batch * columns)."""
    return factor.movedim(0, 1).flatten(1)


def _members(found: Tensor, factors: Factors) -> Tensor:
    """Return columns as members of the batch again, shape (batch, rows, columns)."""
    apart: Tensor = found.unflatten(1, (len(factors[0]), -1))
    return apart.movedim(1, 0).contiguous()


def _bags(table: Tensor, index: Tensor, ends: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return sums of rows of a table, shape (sums, columns).

    Args:
        table: Shape (size, columns).
        index: The rows, those of each sum one after the other, shape (count,).
        ends: 0, then the end of each sum, shape (sums + 1,).
        weights: Multiples of the rows, shape (count,); None for 1.
    """
    return embedding_bag(
        index,
        table.contiguous(),
        ends,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )
