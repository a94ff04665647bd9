"""A list of entries of a tensor whose other entries are zeros: sums over all entries, never formed.

With ``w`` the entrywise product of the other factors' rows at a cell, the sum of ``w w^T`` over all
cells of a row is the entrywise product of the other factors' Gram matrices, and ``sum x w`` has a
term for each listed entry alone. Some listed cells may be missing; their terms are subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, cross_gram, gram, product_of
from parafair.algebra.row_grams import RowGrams, working_memory
from parafair.algebra.sparse import SparseObservations


@dataclass(frozen=True, eq=False)
class ZeroFilledObservations:
    """A list of entries; all others are zeros.

    Attributes:
        indices: Positions of the listed entries, shape (order, count).
        listed: Their values, NaN where they are missing, shape (count,).
        shape: Sizes of the modes.
    """

    indices: Tensor
    listed: Tensor
    shape: tuple[int, ...]

    @cached_property
    def nonzero(self) -> SparseObservations:
        """The listed entries that are observed."""
        present = ~self.listed.isnan()
        if present.all():
            return SparseObservations(self.indices, self.listed, self.shape)
        return SparseObservations(self.indices[:, present], self.listed[present], self.shape)

    @cached_property
    def missing(self) -> SparseObservations | None:
        """The missing entries, as zeros; None if there are none."""
        places = self.indices[:, self.listed.isnan()]
        if not places.shape[1]:
            return None
        return SparseObservations(places, self.listed.new_zeros(places.shape[1]), self.shape)

    @property
    def values(self) -> Tensor:
        """The listed entries that are observed, shape (count,)."""
        return self.nonzero.values

    @property
    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the entries."""
        return self.listed[:0]

    @property
    def count(self) -> int:
        """Number of observed entries, with zeros that are not listed."""
        return prod(self.shape) - int(self.listed.isnan().sum())

    def sums(self, factors: Factors) -> ZeroFilledSums:
        """Return the sums for these factors."""
        return ZeroFilledSums(self, factors)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error of one model, from sums in double precision."""
        batch = [factor.double().unsqueeze(0) for factor in factors]
        doubled = ZeroFilledObservations(self.indices, self.listed.double(), self.shape)
        return float(doubled.error_and_slopes(batch)[0])

    @cached_property
    def norm_squared(self) -> float:
        """``||X||**2``."""
        return float(torch.linalg.vector_norm(self.values, dtype=torch.float64)) ** 2

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients."""
        sums = self.sums(factors)
        targets = [sums.target(mode) for mode in range(len(factors))]
        grams = [gram(factor) for factor in factors]
        slopes = [f @ cross_gram(grams, m) - targets[m] for m, f in enumerate(factors)]
        # ||X||^2 nearly cancels for a good fit, so this must not round to single precision.
        squares = product_of([gram(factor.double()) for factor in factors]).sum((-2, -1))
        inner = (targets[-1].double() * factors[-1].double()).sum((-2, -1))
        error = self.norm_squared + squares - 2 * inner
        if self.missing is not None:
            less, more = self.missing.error_and_slopes(factors)
            error = error - less
            slopes = [slope - own for slope, own in zip(slopes, more, strict=True)]
        return error.clamp_min(0), slopes

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        size = self.shape[mode]
        everywhere = torch.full((size,), prod(self.shape) // size, device=self.indices.device)
        return everywhere if self.missing is None else everywhere - self.missing.counts(mode)

    def working_memory(self, rank: int) -> int:
        """Return the size of the Gram matrices in use; entries are processed in parts."""
        return working_memory(rank, max(self.shape))


class ZeroFilledSums:
    """Sums over all entries; rows share one ``G`` if no entry is missing."""

    def __init__(self, entries: ZeroFilledObservations, factors: Factors) -> None:
        self.entries = entries
        self.factors = list(factors)
        self._grams = [gram(factor) for factor in factors]

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        return self.entries.nonzero.segments(mode).target(self.factors)

    def gram(self, mode: int) -> Tensor | RowGrams:
        """Return ``G``."""
        shared = cross_gram(self._grams, mode)
        missing = self.entries.missing
        if missing is None:
            return shared
        less = missing.segments(mode).grams(list(self.factors))
        first, second = torch.triu_indices(shared.shape[-1], shared.shape[-1], device=shared.device)
        triangle = shared[:, None, first, second]
        return less.changed(lambda part: triangle - part)

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        self.factors[mode] = factor
        self._grams[mode] = gram(factor)
