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
from parafair.algebra.devices import tile_of
from parafair.algebra.row_grams import FORMED, RowGrams, pair_products, working_memory
from parafair.algebra.sparse import InMemory, SparseObservations

# Numbers in memory at once when the model is evaluated at many entries.
NUMBERS_AT_ONCE = 2**22


class Sums(Protocol):
    """``M`` and ``G`` of every mode, for factors that change one at a time."""

    def target(self, mode: int) -> Tensor:
        """Return ``M``, shape (batch, n, rank)."""

    def gram(self, mode: int) -> Tensor | RowGrams:
        """Return ``G``, shape (batch, rank, rank), or one for each row."""

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""


class Observations(Protocol):
    """The observed entries of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""

    @property
    def values(self) -> Tensor:
        """The observed entries, in any shape; an error if they are not in memory."""

    @property
    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the entries."""

    @property
    def count(self) -> int:
        """Number of observed entries."""

    @property
    def norm_squared(self) -> float:
        """The sum of their squares."""

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
class CompleteObservations(InMemory):
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
class MaskedObservations(InMemory):
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
        """Return twice the size of two contractions, plus the Gram matrices in use."""
        columns = rank + rank * (rank + 1) // 2
        return 2 * columns * prod(self.shape[1:]) + working_memory(rank, max(self.shape))


class MaskedSums(Products):
    """Sums over the observed entries of a dense tensor.

    The sum of ``w_r w_s`` over observed entries is the MTTKRP of the mask with factors whose
    columns are the products of pairs of columns. Those of mode 0 are computed for some rows at a
    time.
    """

    def __init__(self, entries: MaskedObservations, factors: Factors) -> None:
        super().__init__(entries.filled, factors)
        self.mask = entries.weights
        self._first_pairs: Tensor | None = None

    def gram(self, mode: int) -> RowGrams:
        """Return one Gram matrix per row."""
        batch, n, rank = self.factors[mode].shape
        # The factor of mode 0 does not enter its own sums, and `_contract_pairs` has used it.
        pairs = [pair_products(factor[:, :1] if m == 0 else factor) for m, factor in self._each()]
        if mode == 0:
            mask = self.mask
            return RowGrams(lambda rows: mttkrp(mask[rows], pairs, 0), mask[:0], (batch, n, rank))
        found = mttkrp(self.mask[:1], pairs, mode, self._contract_pairs())
        return RowGrams.of(found, rank)

    def _each(self) -> list[tuple[int, Tensor]]:
        return list(enumerate(self.factors))

    def _contract_pairs(self) -> Tensor:
        """Return the mask contracted with the pairs of columns of the first factor."""
        if self._first_pairs is None:
            first = self.factors[0]
            rows = max(1, tile_of(FORMED, first) // (first.shape[-1] * (first.shape[-1] + 1) // 2))
            parts = zip(self.mask.split(rows), first.split(rows, 1), strict=True)
            self._first_pairs = _added(
                contract_first(mask, pair_products(some), self.mask.ndim) for mask, some in parts
            )
        return self._first_pairs

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        super().replace(mode, factor)
        if mode == 0:
            self._first_pairs = None


def _rows_at_once(tensor: Tensor) -> int:
    return max(1, NUMBERS_AT_ONCE // prod(tensor.shape[1:]))


def _slices(tensor: Tensor, factors: Factors) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield unfolded slices of the tensor along the first mode, and of the model."""
    others = khatri_rao(factors[1:]).mT
    rows = _rows_at_once(tensor)
    parts = zip(tensor.flatten(1).split(rows), factors[0].split(rows), strict=True)
    yield from ((x, a @ others) for x, a in parts)


def _added(parts: Iterator[Tensor]) -> Tensor:
    """Return the sum of tensors, one of which is held at a time."""
    total = next(parts)
    for part in parts:
        total = total.add_(part)
    return total
