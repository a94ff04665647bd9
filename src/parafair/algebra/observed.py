"""The observed entries of a tensor, and the sums over them that least squares needs.

With ``w`` the entrywise product of the other factors' rows at an observed entry ``x``, the
squared error is a quadratic function of row ``i`` of one factor, determined by

    m_i = sum x w        and        G_i = sum w w^T        over the entries observed in row i.

If no entry is missing, all rows share one ``G``. Missing entries are never imputed. Memory is that
of the data and the sums; sparse data is stored once per mode, sorted by that mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, contract_first, cross_gram, gram, khatri_rao, mttkrp
from parafair.algebra.segments import Segments, rows_product

# Numbers in memory at once when the model is evaluated at many entries.
NUMBERS_AT_ONCE = 2**22

# Copies of the rows' Gram matrices that a solver holds at once.
GRAM_COPIES = 6


class Sums(Protocol):
    """``M`` and ``G`` of every mode, for factors that change one at a time."""

    def target(self, mode: int) -> Tensor:
        """Return ``M``, shape (batch, n, rank)."""

    def gram(self, mode: int) -> Tensor:
        """Return ``G``, shape (batch, rank, rank), or (batch, n, rank, rank) with one per row."""

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""


class Observations(Protocol):
    """The observed entries of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""

    @property
    def values(self) -> Tensor:
        """The observed entries, in any shape."""

    def sums(self, factors: Factors) -> Sums:
        """Return the sums for these factors, each (batch, size, rank)."""

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error of one model, computed from the entries."""

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error of each model, and half its gradient in every factor.

        Args:
            factors: Each (batch, size, rank).

        Returns:
            The error in double precision, shape (batch,), and ``A G - M`` of every mode.
        """

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index of a mode, shape (size,)."""

    def working_memory(self, rank: int) -> int:
        """Return about how many numbers the sums take per member of a batch."""


def observe(values: Tensor, indices: Tensor | None, shape: tuple[int, ...]) -> Observations:
    """Return the observed entries of a tensor.

    Args:
        values: All entries, NaN where missing; or the entries at `indices`, shape (count,).
        indices: Their positions, shape (order, count); None if `values` has all entries.
        shape: Sizes of the modes.
    """
    if indices is not None:
        return SparseObservations(indices, values, shape)
    missing = torch.isnan(values)
    if missing.any():
        return MaskedObservations(values.masked_fill(missing, 0.0), ~missing)
    return CompleteObservations(values)


@dataclass(frozen=True, eq=False)
class CompleteObservations:
    """A tensor without missing entries; all rows share one ``G``."""

    values: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.values.shape)

    def sums(self, factors: Factors) -> CompleteSums:
        """Return the sums for these factors."""
        return CompleteSums(self.values, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return ``||X - [[A, B, ...]]||**2``, a few slices at a time."""
        return sum(
            float(torch.linalg.vector_norm(x - model, dtype=torch.float64)) ** 2
            for x, model in _slices(self.values, factors)
        )

    @cached_property
    def norm_squared(self) -> float:
        """``||X||**2``."""
        return float(torch.linalg.vector_norm(self.values, dtype=torch.float64)) ** 2

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients; the tensor is read twice."""
        sums = self.sums(factors)
        targets = [sums.target(mode) for mode in range(len(factors))]
        grams = [sums.gram(mode) for mode in range(len(factors))]
        parts = zip(factors, grams, targets, strict=True)
        slopes = [factor @ gram - target for factor, gram, target in parts]
        # ||X||^2 nearly cancels for a good fit, so this must not round to single precision.
        last, target = factors[-1].double(), targets[-1].double()
        inner = ((last @ grams[-1].double() - 2 * target) * last).sum((-2, -1))
        return (self.norm_squared + inner).clamp_min(0), slopes

    def counts(self, mode: int) -> Tensor:
        """Return the number of entries at each index; all are equal."""
        size = self.shape[mode]
        return self.values.new_full((size,), self.values.numel() // size, dtype=torch.long)

    def working_memory(self, rank: int) -> int:
        """Return twice the size of the contraction with the first factor."""
        return 2 * rank * prod(self.shape[1:])


class Products:
    """The MTTKRPs of one dense tensor; a pass over all modes reads it twice.

    The contraction of mode 0 is reused by all later modes until the factor of mode 0 changes.
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
        """Replace the factor of a mode."""
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
        """Replace the factor of a mode."""
        super().replace(mode, factor)
        self._grams[mode] = gram(factor)


@dataclass(frozen=True, eq=False)
class MaskedObservations:
    """A dense tensor with missing entries.

    Attributes:
        filled: The entries, zero where missing.
        observed: True where an entry is observed.
    """

    filled: Tensor
    observed: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(self.filled.shape)

    @cached_property
    def values(self) -> Tensor:
        """The observed entries, shape (count,)."""
        return self.filled[self.observed]

    @cached_property
    def weights(self) -> Tensor:
        """One where observed, zero elsewhere."""
        return self.observed.to(self.filled)

    def sums(self, factors: Factors) -> MaskedSums:
        """Return the sums for these factors."""
        return MaskedSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over the observed entries, a few slices at a time."""
        total = 0.0
        rows = self.weights.flatten(1).split(_rows_at_once(self.filled))
        for weights, (x, model) in zip(rows, _slices(self.filled, factors), strict=True):
            total += float(torch.linalg.vector_norm(x - weights * model, dtype=torch.float64)) ** 2
        return total

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients, from the errors at the entries.

        This takes 3 products of the size of the data per component, and reads the data once. The
        Gram matrices of all rows would take one for each pair of components.
        """
        others = khatri_rao(factors[1:])
        error = others.new_zeros(len(others), dtype=torch.float64)
        rows = max(1, NUMBERS_AT_ONCE // others[..., 0].numel())
        own, first = [], torch.zeros_like(others.mT)
        parts = (self.filled.flatten(1), self.weights.flatten(1))
        slices = zip(*(part.split(rows) for part in parts), strict=True)
        for (x, weights), some in zip(slices, factors[0].split(rows, dim=1), strict=True):
            errors = (some @ others.mT).mul_(weights).sub_(x)
            error += torch.linalg.vector_norm(errors, dim=(-2, -1), dtype=torch.float64).square()
            own.append(errors @ others)
            first += some.mT @ errors
        first = first.unflatten(-1, self.shape[1:])
        later = [mttkrp(self.filled, factors, mode, first) for mode in range(1, len(factors))]
        return error, [torch.cat(own, 1), *later]

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        return self.observed.movedim(mode, 0).flatten(1).sum(1)

    def working_memory(self, rank: int) -> int:
        """Return twice the size of two contractions, plus copies of the Gram matrices."""
        columns = rank + rank * (rank + 1) // 2
        return 2 * columns * prod(self.shape[1:]) + GRAM_COPIES * rank**2 * max(self.shape)


class MaskedSums(Products):
    """Sums over the observed entries of a dense tensor.

    The sum of ``w_r w_s`` over observed entries is the MTTKRP of the mask with factors whose
    columns are the products of pairs of columns.
    """

    def __init__(self, entries: MaskedObservations, factors: Factors) -> None:
        super().__init__(entries.filled, factors)
        self._pairs = Products(entries.weights, [pair_products(factor) for factor in factors])

    def gram(self, mode: int) -> Tensor:
        """Return one Gram matrix per row."""
        return from_pairs(self._pairs.target(mode), self.factors[mode].shape[-1])

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        super().replace(mode, factor)
        self._pairs.replace(mode, pair_products(factor))


@dataclass(frozen=True, eq=False)
class SparseObservations:
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

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients, from the errors at the entries."""
        found = [self.segments(mode).errors(factors) for mode in range(len(factors))]
        return found[0][0], [slope for _, slope in found]

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        return torch.bincount(self.indices[mode], minlength=self.shape[mode])

    def working_memory(self, rank: int) -> int:
        """Return the size of copies of the Gram matrices; entries are processed in parts."""
        return GRAM_COPIES * rank**2 * max(self.shape)


class SparseSums:
    """Sums over a list of entries: one pass gives both ``M`` and ``G`` of a mode."""

    def __init__(self, entries: SparseObservations, factors: Factors) -> None:
        self.entries = entries
        self.factors = list(factors)
        self._found: tuple[int, Tensor, Tensor] | None = None

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        return self._sums(mode)[0]

    def gram(self, mode: int) -> Tensor:
        """Return one Gram matrix per row."""
        return self._sums(mode)[1]

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode; the sums of that mode do not change."""
        self.factors[mode] = factor
        if self._found is not None and self._found[0] != mode:
            self._found = None

    def _sums(self, mode: int) -> tuple[Tensor, Tensor]:
        if self._found is None or self._found[0] != mode:
            self._found = (mode, *self.entries.segments(mode).sums(self.factors))
        return self._found[1:]


def pair_products(factor: Tensor) -> Tensor:
    """Return the products of all pairs of columns, shape (..., n, rank (rank + 1) / 2)."""
    rank = factor.shape[-1]
    return torch.cat([factor[..., r : r + 1] * factor[..., r:] for r in range(rank)], -1)


def from_pairs(sums: Tensor, rank: int) -> Tensor:
    """Return symmetric matrices from their upper triangles, ordered as in `pair_products`."""
    first, second = torch.triu_indices(rank, rank, device=sums.device)
    place = torch.empty(rank, rank, dtype=torch.long, device=sums.device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=sums.device)
    return sums[..., place]


def values_at(indices: Tensor, factors: Factors) -> Tensor:
    """Return the model's values at given positions, computed in parts.

    Args:
        indices: Shape (order, count).
        factors: One (size, rank) matrix per mode.
    """
    most = max(1, NUMBERS_AT_ONCE // factors[0].shape[-1])
    parts = [rows_product(factors, part).sum(-1) for part in indices.split(most, dim=1)]
    return torch.cat(parts) if parts else factors[0].new_zeros(0)


def _rows_at_once(tensor: Tensor) -> int:
    return max(1, NUMBERS_AT_ONCE // prod(tensor.shape[1:]))


def _slices(tensor: Tensor, factors: Factors) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield unfolded slices of the tensor along the first mode, and of the model."""
    others = khatri_rao(factors[1:]).mT
    rows = _rows_at_once(tensor)
    parts = zip(tensor.flatten(1).split(rows), factors[0].split(rows), strict=True)
    yield from ((x, a @ others) for x, a in parts)
