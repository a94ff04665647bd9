"""The observed entries of a tensor, and the sums over them that least squares needs.

With ``w`` the entrywise product of the other factors' rows at an observed entry ``x``, the
squared error is a quadratic function of row ``i`` of one factor, known from

    m_i = sum x w        and        G_i = sum w w^T        over the entries observed in row i.

If nothing is missing all rows share one ``G``. No entry is ever filled in: memory is that of the
data plus the sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from parafair.data import TensorData
from parafair.tensors import Factors, contract_first, cross_gram, gram, khatri_rao, mttkrp

# Numbers held at once where the model is computed at many entries.
BLOCK = 2**22

# Numbers held at once where many short rows are summed: as many as the cache holds.
CACHED = 2**17

# From this many entries in a row on average, a product of matrices for each row pays.
LONG_ROW = 64

# Copies of the Gram matrices of all rows that a solver makes on its way.
GRAM_COPIES = 6


class Sums(Protocol):
    """``M`` and ``G`` of every mode, for factors that change one at a time."""

    def target(self, mode: int) -> Tensor:
        """Return ``M``, shape (batch, n, rank)."""

    def gram(self, mode: int) -> Tensor:
        """Return ``G``, shape (batch, rank, rank), or (batch, n, rank, rank) for each row."""

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""


class Entries(Protocol):
    """The observed entries of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""

    @property
    def values(self) -> Tensor:
        """The observed entries, in any shape."""

    def sums(self, factors: Factors) -> Sums:
        """Begin with these factors, each (batch, size, rank)."""

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error entry by entry, for one model."""

    def counts(self, mode: int) -> Tensor:
        """Return how many entries were observed at each index of a mode, shape (size,)."""

    def working_memory(self, rank: int) -> int:
        """Return how many numbers the sums take for each member of a batch, about."""


def entries_of(data: Tensor | TensorData) -> Entries:
    """Return the entries of a tensor in which NaN stands for a missing one."""
    tensor = data.values if isinstance(data, TensorData) else data
    if isinstance(data, TensorData) and data.indices is not None:
        return SparseEntries(data.indices, tensor, data.shape)
    missing = torch.isnan(tensor)
    if missing.any():
        return MaskedEntries(tensor.masked_fill(missing, 0.0), ~missing)
    return CompleteEntries(tensor)


@dataclass(frozen=True, eq=False)
class CompleteEntries:
    """A tensor without missing entries; all rows share one ``G``."""

    values: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.values.shape)

    def sums(self, factors: Factors) -> CompleteSums:
        """Begin with these factors."""
        return CompleteSums(self.values, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return ``||X - [[A, B, ...]]||**2``, a few slices at a time."""
        return sum(
            float(torch.linalg.vector_norm(x - model, dtype=torch.float64)) ** 2
            for x, model in _slices(self.values, factors)
        )

    def counts(self, mode: int) -> Tensor:
        """Return the same number for each index."""
        size = self.shape[mode]
        return torch.full((size,), self.values.numel() // size, device=self.values.device)

    def working_memory(self, rank: int) -> int:
        """Return the size of the contraction with the first factor, twice."""
        return 2 * rank * prod(self.shape[1:])


class Products:
    """The MTTKRPs of one dense tensor, reading it twice in a pass over all modes.

    The contraction with mode 0 serves every later mode until the factor of mode 0 changes.
    """

    def __init__(self, tensor: Tensor, factors: Factors) -> None:
        self.tensor = tensor
        self.factors = list(factors)
        self._first: Tensor | None = None

    def target(self, mode: int) -> Tensor:
        """Return the MTTKRP of a mode."""
        if mode > 0 and self._first is None:
            self._first = contract_first(self.tensor, self.factors[0], self.tensor.ndim)
        return mttkrp(self.tensor, self.factors, mode, self._first)

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""
        self.factors[mode] = factor
        if mode == 0:
            self._first = None


class CompleteSums(Products):
    """Sums over all entries."""

    def __init__(self, tensor: Tensor, factors: Factors) -> None:
        super().__init__(tensor, factors)
        self._grams = [gram(factor) for factor in factors]

    def gram(self, mode: int) -> Tensor:
        """Return the product of the other factors' Gram matrices."""
        return cross_gram(self._grams, mode)

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""
        super().replace(mode, factor)
        self._grams[mode] = gram(factor)


@dataclass(frozen=True, eq=False)
class MaskedEntries:
    """A dense tensor of which some entries are missing.

    Attributes:
        filled: The entries, zero where missing.
        observed: Where they were observed, True or False.
    """

    filled: Tensor
    observed: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.filled.shape)

    @cached_property
    def values(self) -> Tensor:
        """The observed entries in a row."""
        return self.filled[self.observed]

    @cached_property
    def weights(self) -> Tensor:
        """One where observed, zero elsewhere."""
        return self.observed.to(self.filled)

    def sums(self, factors: Factors) -> MaskedSums:
        """Begin with these factors."""
        return MaskedSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over the observed entries, a few slices at a time."""
        total = 0.0
        rows = self.weights.flatten(1).split(_rows_at_once(self.filled))
        for weights, (x, model) in zip(rows, _slices(self.filled, factors), strict=True):
            total += float(torch.linalg.vector_norm(x - weights * model, dtype=torch.float64)) ** 2
        return total

    def counts(self, mode: int) -> Tensor:
        """Return how many entries were observed at each index."""
        return self.observed.movedim(mode, 0).flatten(1).sum(1)

    def working_memory(self, rank: int) -> int:
        """Return the size of two contractions, twice, and of copies of the Gram matrices."""
        columns = rank + rank * (rank + 1) // 2
        return 2 * columns * prod(self.shape[1:]) + GRAM_COPIES * rank**2 * max(self.shape)


class MaskedSums(Products):
    """Sums over the observed entries of a dense tensor.

    The sum of ``w_r w_s`` over observed entries is the MTTKRP of the mask with factors whose
    columns are the products of pairs of columns.
    """

    def __init__(self, entries: MaskedEntries, factors: Factors) -> None:
        super().__init__(entries.filled, factors)
        self._pairs = Products(entries.weights, [pair_products(factor) for factor in factors])

    def gram(self, mode: int) -> Tensor:
        """Return a Gram matrix for each row."""
        return from_pairs(self._pairs.target(mode), self.factors[mode].shape[-1])

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place."""
        super().replace(mode, factor)
        self._pairs.replace(mode, pair_products(factor))


@dataclass(frozen=True, eq=False)
class SparseEntries:
    """A list of observed entries.

    Attributes:
        indices: Where they are, shape (order, count).
        values: Shape (count,).
        shape: Sizes of the modes.
    """

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]

    @cached_property
    def by_mode(self) -> tuple[_Sorted, ...]:
        """The entries in the order of each mode, in which sums over a row are contiguous."""
        return tuple(_Sorted.of(self, mode) for mode in range(len(self.shape)))

    def sums(self, factors: Factors) -> SparseSums:
        """Begin with these factors."""
        return SparseSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over the observed entries."""
        difference = self.values - values_at(self.indices, factors)
        return float(torch.linalg.vector_norm(difference, dtype=torch.float64)) ** 2

    def counts(self, mode: int) -> Tensor:
        """Return how many entries were observed at each index."""
        return torch.bincount(self.indices[mode], minlength=self.shape[mode])

    def working_memory(self, rank: int) -> int:
        """Return the size of copies of the Gram matrices; entries are taken in blocks."""
        return GRAM_COPIES * rank**2 * max(self.shape)


class SparseSums:
    """Sums over a list of entries: one pass gives both ``M`` and ``G`` of a mode."""

    def __init__(self, entries: SparseEntries, factors: Factors) -> None:
        self.entries = entries
        self.factors = list(factors)
        self._found: tuple[int, Tensor, Tensor] | None = None

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        return self._sums(mode)[0]

    def gram(self, mode: int) -> Tensor:
        """Return a Gram matrix for each row."""
        return self._sums(mode)[1]

    def replace(self, mode: int, factor: Tensor) -> None:
        """Put a new factor in place; the sums of its own mode stay as they are."""
        self.factors[mode] = factor
        if self._found is not None and self._found[0] != mode:
            self._found = None

    def _sums(self, mode: int) -> tuple[Tensor, Tensor]:
        if self._found is None or self._found[0] != mode:
            self._found = (mode, *self.entries.by_mode[mode].sums(self.factors, mode))
        return self._found[1:]


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Entries in the order of one mode.

    Attributes:
        indices: Shape (order, count).
        values: Shape (count,).
        ends: Where the entries of each index of the mode end, shape (size + 1,), from 0.
    """

    indices: Tensor
    values: Tensor
    ends: Tensor

    @classmethod
    def of(cls, entries: SparseEntries, mode: int) -> _Sorted:
        order = torch.argsort(entries.indices[mode], stable=True)
        counts = entries.counts(mode)
        ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(entries.indices[:, order], entries.values[order], ends)

    def sums(self, factors: Factors, mode: int) -> tuple[Tensor, Tensor]:
        """Return ``M``, shape (batch, n, rank), and ``G``, shape (batch, n, rank, rank)."""
        # The batch becomes more columns, so that every index is looked up once for all members.
        wide = [factor.movedim(0, 1).flatten(1) for factor in factors]
        shape = (len(self.ends) - 1, *factors[mode].shape[::2])
        long = len(self.values) >= LONG_ROW * shape[0]
        target, gram = (self._long_rows if long else self._short_rows)(wide, mode, shape)
        return target.movedim(0, 1).contiguous(), gram.movedim(0, 1).contiguous()

    def _long_rows(
        self, wide: Sequence[Tensor], mode: int, shape: tuple[int, int, int]
    ) -> tuple[Tensor, Tensor]:
        """Return the sums for rows with many entries, each by a product of matrices."""
        _, batch, rank = shape
        target = self.values.new_zeros(shape)
        gram = self.values.new_zeros(*shape, rank)
        ends, most = self.ends.tolist(), max(1, BLOCK // (batch * rank))
        for row, (first, last) in enumerate(pairwise(ends)):
            for begin in range(first, last, most):
                part = slice(begin, min(begin + most, last))
                product = _rows_product(wide, self.indices[:, part], mode)
                target[row] += (self.values[part] @ product).reshape(batch, rank)
                members = product.reshape(-1, batch, rank).movedim(0, 1)
                gram[row] += members.mT @ members
        return target, gram

    def _short_rows(
        self, wide: Sequence[Tensor], mode: int, shape: tuple[int, int, int]
    ) -> tuple[Tensor, Tensor]:
        """Return the sums for rows with few entries, many rows at a time."""
        size, batch, rank = shape
        columns = rank + rank * (rank + 1) // 2
        total = self.values.new_zeros(size, batch, columns)
        most = max(1, CACHED // (batch * columns))
        for begin in range(0, len(self.values), most):
            part = slice(begin, min(begin + most, len(self.values)))
            product = _rows_product(wide, self.indices[:, part], mode).reshape(-1, batch, rank)
            summand = torch.cat(
                [self.values[part, None, None] * product, pair_products(product)], -1
            )
            _add_segments(total.flatten(1), summand.flatten(1), self.ends, begin)
        return total[..., :rank], from_pairs(total[..., rank:], rank)


def _rows_product(factors: Sequence[Tensor], indices: Tensor, mode: int) -> Tensor:
    """Return the entrywise product of all factors' rows but one's, shape (count, columns)."""
    others = [other for other in range(len(factors)) if other != mode]
    product = factors[others[0]].index_select(0, indices[others[0]])
    for other in others[1:]:
        product.mul_(factors[other].index_select(0, indices[other]))
    return product


def _add_segments(total: Tensor, rows: Tensor, ends: Tensor, begin: int) -> None:
    """Add to each row of `total` the sum of the entries between its ends, if they are here.

    Args:
        total: Shape (n, columns).
        rows: Entries number `begin` and following, shape (count, columns).
        ends: Where the entries of each row end, from 0, shape (n + 1,).
        begin: Number of the first entry.
    """
    edges = torch.tensor([begin, begin + len(rows)], device=ends.device)
    first = int(torch.searchsorted(ends, edges[:1], right=True)) - 1
    last = int(torch.searchsorted(ends, edges[1:]))
    starts = (ends[first : last + 1] - begin).clamp(0, len(rows))
    with warnings.catch_warnings():
        # torch announces that its compressed matrices may still change, and that they go unchecked.
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)", category=UserWarning)
        matrix = torch.sparse_csr_tensor(
            starts,
            torch.arange(len(rows), device=rows.device),
            rows.new_ones(len(rows)),
            (last - first, len(rows)),
            check_invariants=False,
        )
    total[first:last] += matrix @ rows


def pair_products(factor: Tensor) -> Tensor:
    """Return the products of all pairs of columns, shape (..., n, rank (rank + 1) / 2)."""
    rank = factor.shape[-1]
    return torch.cat([factor[..., r : r + 1] * factor[..., r:] for r in range(rank)], -1)


def from_pairs(sums: Tensor, rank: int) -> Tensor:
    """Return symmetric matrices from their entries in the order of `pair_products`."""
    first, second = torch.triu_indices(rank, rank, device=sums.device)
    place = torch.empty(rank, rank, dtype=torch.long, device=sums.device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=sums.device)
    return sums[..., place]


def values_at(indices: Tensor, factors: Factors) -> Tensor:
    """Return the model's values at some entries, a few at a time.

    Args:
        indices: Shape (order, count).
        factors: One (size, rank) matrix per mode.
    """
    most = max(1, BLOCK // factors[0].shape[-1])
    parts = [
        (_rows_product(factors, part, 0) * factors[0].index_select(0, part[0])).sum(-1)
        for part in indices.split(most, dim=1)
    ]
    return torch.cat(parts) if parts else factors[0].new_zeros(0)


def _rows_at_once(tensor: Tensor) -> int:
    return max(1, BLOCK // prod(tensor.shape[1:]))


def _slices(tensor: Tensor, factors: Factors) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield unfolded slices of the first mode, and the model's."""
    others = khatri_rao(factors[1:]).mT
    rows = _rows_at_once(tensor)
    parts = zip(tensor.flatten(1).split(rows), factors[0].split(rows), strict=True)
    yield from ((x, a @ others) for x, a in parts)
