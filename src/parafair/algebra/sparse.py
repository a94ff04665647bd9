"""A list of observed entries, and the sums over them; see `parafair.algebra.observed`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parafair.algebra.cells import Cells
from parafair.algebra.cp_tensor import Factors
from parafair.algebra.row_grams import RowGrams, pair_products, working_memory
from parafair.algebra.segments import Segments, rows_product

# Numbers in memory at once when the model is evaluated at many entries.
NUMBERS_AT_ONCE = 2**22


class InMemory:
    """What follows from observed entries that are in memory."""

    if TYPE_CHECKING:

        @property
        def values(self) -> Tensor:
            """The observed entries, in any shape."""

    @property
    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the entries."""
        return self.values.flatten()[:0]

    @property
    def count(self) -> int:
        """Number of observed entries."""
        return self.values.numel()

    @cached_property
    def norm_squared(self) -> float:
        """The sum of the squares of the entries."""
        return float(torch.linalg.vector_norm(self.values, dtype=torch.float64)) ** 2


@dataclass(frozen=True, eq=False)
class SparseObservations(InMemory):
    """A list of observed entries.

    Attributes:
        indices: Positions of the entries, shape (order, count).
        values: Shape (count,).
        shape: Sizes of the modes.
    """

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]

    def segments(self, mode: int) -> Segments:
        """Return the entries sorted by a mode; computed once per mode."""
        if mode not in self._segments:
            found = Segments.of(self.indices, self.values, shape=self.shape, mode=mode)
            self._segments[mode] = found
        return self._segments[mode]

    @cached_property
    def _segments(self) -> dict[int, Segments]:
        return {}

    def sums(self, factors: Factors) -> SparseSums:
        """Return the sums for these factors."""
        return SparseSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over the observed entries."""
        difference = self.values - values_at(self.indices, factors)
        return float(torch.linalg.vector_norm(difference, dtype=torch.float64)) ** 2

    @cached_property
    def cells(self) -> Cells | None:
        """The entries by cell; None if there are too many cells."""
        return Cells.of(self.indices, self.values, self.shape)

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients, from the errors at the entries."""
        if self.cells is not None:
            return self.cells.error_and_slopes(factors)
        found = [self.segments(mode).errors(factors) for mode in range(len(factors))]
        return found[0][0], [slope for _, slope in found]

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        return torch.bincount(self.indices[mode], minlength=self.shape[mode])

    def working_memory(self, rank: int) -> int:
        """Return the size of the Gram matrices in use; entries are processed in parts."""
        return working_memory(rank, max(self.shape))


class SparseSums:
    """Sums over a list of entries: by cell if there are few cells, and otherwise by segment."""

    def __init__(self, entries: SparseObservations, factors: Factors) -> None:
        self.entries = entries
        self.factors = list(factors)
        self._contracted: tuple[Tensor, Tensor] | None = None

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        cells = self.entries.cells
        if cells is None:
            return self.entries.segments(mode).target(self.factors)
        if mode == cells.mode:
            return cells.target(self.factors)
        return cells.sums(self._contract(cells)[0], self.factors, mode)

    def gram(self, mode: int) -> RowGrams:
        """Return one Gram matrix per row."""
        cells, factors = self.entries.cells, list(self.factors)
        if cells is None:
            return self.entries.segments(mode).grams(factors)
        if mode == cells.mode:
            return cells.grams(factors)
        pairs = [f if m == cells.mode else pair_products(f) for m, f in enumerate(factors)]
        found = cells.sums(self._contract(cells)[1], pairs, mode)
        return RowGrams.of(found, factors[mode].shape[-1])

    def _contract(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """Return the sums over the longest mode; computed once for each of its factors."""
        if self._contracted is None:
            self._contracted = cells.contracted(self.factors[cells.mode])
        return self._contracted

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode; the sums of that mode do not change."""
        self.factors[mode] = factor
        if self.entries.cells is not None and mode == self.entries.cells.mode:
            self._contracted = None


def values_at(indices: Tensor, factors: Factors) -> Tensor:
    """Return the model's values at given positions, computed in parts.

    Args:
        indices: Shape (order, count).
        factors: One (size, rank) matrix per mode.
    """
    most = max(1, NUMBERS_AT_ONCE // factors[0].shape[-1])
    parts = [rows_product(factors, part).sum(-1) for part in indices.split(most, dim=1)]
    return torch.cat(parts) if parts else factors[0].new_zeros(0)
