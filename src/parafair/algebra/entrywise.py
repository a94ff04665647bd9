"""Sums over the observed entries for a loss of any kind, computed for some entries at a time.

With ``m`` the model at an entry ``x`` and ``w`` the entrywise product of the other factors' rows,
the sum of ``f(x, m)`` is a function of row ``i`` of one factor, with

    slope  s_i = sum f'(x, m) w        and        curvature  G_i = sum c(x, m) w w^T

over the entries observed in row i. A model may have fixed components beside those of the factors:
offsets are such components, with a vector in one mode and ones in all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, khatri_rao, mttkrp
from parafair.algebra.devices import tile_of
from parafair.algebra.observed import CompleteObservations, MaskedObservations, Observations
from parafair.algebra.row_grams import pair_products
from parafair.algebra.segments import add_segments, rows_product
from parafair.algebra.sparse import SparseObservations

# Numbers of the model that are computed at once; on a CPU, as many as fit into the cache.
TILE = {"cpu": 2**18, "cuda": 2**25}


class Entrywise(Protocol):
    """A function ``f`` of an entry and the model; see `parafair.losses`."""

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``f`` and its derivative in the model."""


class Curved(Protocol):
    """A function of an entry and the model with a curvature."""

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the second derivative in the model, or its expectation."""


class Weight(Protocol):
    """A weight of each entry."""

    def __call__(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the weights, given the entries and the model."""


class Entries(Protocol):
    """Observed entries for sums of a loss."""

    def value_and_slopes(
        self, loss: Entrywise, factors: Factors, fixed: Factors
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of ``f`` in double precision, shape (batch,), and its slopes.

        Args:
            loss: The loss.
            factors: Each (batch, size, rank).
            fixed: Further components, each (size, columns), or (batch, size, columns) if members
                of a batch differ; empty for none.
        """

    def slope_and_grams(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the same for one mode, with weighted Gram matrices.

        Returns:
            The sum of ``f`` in double precision, shape (batch,); the slope, shape
            (batch, n, rank); and the upper triangles of the matrices, shape (batch, n, pairs).
        """

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the same, with the sum of ``f`` in each row of the mode, shape (batch, n).

        Args:
            loss: The loss.
            weight: The weights of the entries; None for no Gram matrices.
            factors: Each (batch, size, rank).
            fixed: Further components.
            mode: The mode.
        """

    def margins(self, loss: Curved, factors: Factors, fixed: Factors) -> list[Tensor]:
        """Return the sum of the curvatures at each index of each mode, (batch, size) each."""


def entries_of(observations: Observations) -> Entries:
    """Return observed entries for sums of a loss."""
    if isinstance(observations, SparseObservations):
        return ListedEntries(observations.indices, observations.values, observations.shape)
    if isinstance(observations, MaskedObservations):
        return DenseEntries(observations.filled, observations.weights)
    assert isinstance(observations, CompleteObservations)
    return DenseEntries(observations.values, None)


@dataclass(frozen=True, eq=False)
class DenseEntries:
    """Entries of a dense tensor.

    Attributes:
        filled: The entries, zero where missing.
        observed: One where an entry is observed, zero elsewhere; None if none is missing.
    """

    filled: Tensor
    observed: Tensor | None

    def value_and_slopes(
        self, loss: Entrywise, factors: Factors, fixed: Factors
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of ``f`` and its slopes; the data is read once."""
        # Rows of products are contiguous: with columns, a product with few columns is slower.
        others = khatri_rao(factors[1:]).mT.contiguous()
        total = others.new_zeros(len(others), dtype=torch.float64)
        own, first = [], torch.zeros_like(others)
        for rows, x, observed, model in self._tiles(factors, fixed):
            value, slope = loss.value_and_slope(x, model)
            if observed is not None:
                value, slope = value * observed, slope * observed
            total += value.sum((-2, -1), dtype=torch.float64)
            own.append(slope @ others.mT)
            first.baddbmm_(factors[0][:, rows].mT, slope)
        first = first.unflatten(-1, self.filled.shape[1:])
        later = [mttkrp(self.filled, factors, mode, first) for mode in range(1, len(factors))]
        return total, [torch.cat(own, 1), *later]

    def slope_and_grams(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the sum of ``f``, the slope and the Gram matrices of one mode."""
        if mode == 0:
            values, slope, grams = self.of_rows(loss, weight, factors, fixed, 0)
            return values.sum(-1), slope, grams
        batch, _, rank = factors[0].shape
        total = factors[0].new_zeros(batch, dtype=torch.float64)
        first = factors[0].new_zeros(batch, rank, self.filled[0].numel())
        pairs = [] if weight is None else [pair_products(factor) for factor in factors]
        both = first.new_zeros(batch, pairs[0].shape[-1], first.shape[-1]) if pairs else None
        for rows, x, observed, model in self._tiles(factors, fixed):
            value, slope = loss.value_and_slope(x, model)
            if observed is not None:
                value, slope = value * observed, slope * observed
            total += value.sum((-2, -1), dtype=torch.float64)
            first.baddbmm_(factors[0][:, rows].mT, slope)
            if weight is not None and both is not None:
                own = weight(x, model)
                own = own if observed is None else own * observed
                both.baddbmm_(pairs[0][:, rows].mT, own)
        sizes = self.filled.shape[1:]
        slope = mttkrp(self.filled, factors, mode, first.unflatten(-1, sizes))
        if both is None:
            return total, slope, None
        return total, slope, mttkrp(self.filled, pairs, mode, both.unflatten(-1, sizes))

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        if mode:
            return self._in_front(mode).of_rows(
                loss, weight, _in_front(factors, mode), _in_front(fixed, mode), 0
            )
        others = khatri_rao(factors[1:])
        pairs = None if weight is None else pair_products(others).mT.contiguous()
        others = others.mT.contiguous()
        values, slopes, grams = [], [], []
        for _, x, observed, model in self._tiles(factors, fixed):
            value, slope = loss.value_and_slope(x, model)
            if observed is not None:
                value, slope = value * observed, slope * observed
            values.append(value.sum(-1, dtype=torch.float64))
            slopes.append(slope @ others.mT)
            if weight is not None and pairs is not None:
                own = weight(x, model)
                grams.append((own if observed is None else own * observed) @ pairs.mT)
        return torch.cat(values, 1), torch.cat(slopes, 1), torch.cat(grams, 1) if grams else None

    def margins(self, loss: Curved, factors: Factors, fixed: Factors) -> list[Tensor]:
        """Return the sums of the curvatures."""
        own, rest = [], factors[0].new_zeros(len(factors[0]), self.filled[0].numel())
        for _, x, observed, model in self._tiles(factors, fixed):
            found = loss.curvature(x, model)
            found = found if observed is None else found * observed
            own.append(found.sum(-1))
            rest += found.sum(-2)
        apart = rest.unflatten(-1, self.filled.shape[1:])
        dims = range(1, apart.ndim)
        return [torch.cat(own, 1), *(_sum_over(apart, [d for d in dims if d != m]) for m in dims)]

    def _tiles(
        self, factors: Factors, fixed: Factors
    ) -> Iterator[tuple[slice, Tensor, Tensor | None, Tensor]]:
        """Yield some rows of the first mode: entries, where they are observed, and the model.

        The model is zero where an entry is missing, so that no function of it is infinite.
        """
        first, *later = extended(factors, fixed)
        others = khatri_rao(later).mT.contiguous()
        n, count = self.filled.shape[0], others[..., 0, :].numel()
        at_once = max(1, tile_of(TILE, first) // count)
        x, observed = self.filled.flatten(1), self.observed
        observed = None if observed is None else observed.flatten(1)
        for begin in range(0, n, at_once):
            rows = slice(begin, min(begin + at_once, n))
            model = first[:, rows] @ others
            here = None if observed is None else observed[rows]
            yield rows, x[rows], here, model if here is None else model.mul_(here)

    def _in_front(self, mode: int) -> DenseEntries:
        """Return the entries with another mode in front."""
        observed = None if self.observed is None else self.observed.movedim(mode, 0)
        return DenseEntries(self.filled.movedim(mode, 0), observed)


def _sum_over(tensor: Tensor, dims: list[int]) -> Tensor:
    """Return the sum over some dimensions; none of them leaves the tensor as it is."""
    return tensor.sum(dims) if dims else tensor


def _in_front(factors: Factors, mode: int) -> list[Tensor]:
    """Return factors with that of a mode in front."""
    return [factors[mode], *factors[:mode], *factors[mode + 1 :]] if factors else []


class ByRows:
    """Entries whose sums for one mode are made row by row."""

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        raise NotImplementedError

    def slope_and_grams(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the sum of ``f``, the slope and the Gram matrices of one mode."""
        values, slope, grams = self.of_rows(loss, weight, factors, fixed, mode)
        return values.sum(-1), slope, grams


@dataclass(frozen=True, eq=False)
class ListedEntries(ByRows):
    """A list of entries.

    Attributes:
        indices: Positions of the entries, shape (order, count).
        values: Shape (count,).
        shape: Sizes of the modes.
    """

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]

    @cached_property
    def _sorted(self) -> dict[int, tuple[Tensor, Tensor]]:
        return {}

    def _by(self, mode: int) -> tuple[Tensor, Tensor]:
        """Return the order of the entries by a mode, and 0, then the end of each row's entries."""
        if mode not in self._sorted:
            counts = torch.bincount(self.indices[mode], minlength=self.shape[mode])
            ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            self._sorted[mode] = torch.argsort(self.indices[mode], stable=True), ends
        return self._sorted[mode]

    def value_and_slopes(
        self, loss: Entrywise, factors: Factors, fixed: Factors
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of ``f`` and its slopes."""
        value, slope = loss.value_and_slope(self.values[:, None], self._model(factors, fixed))
        slopes = [self._sum(slope, factors, mode) for mode in range(len(factors))]
        return value.sum(0, dtype=torch.float64), slopes

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        model, x = self._model(factors, fixed), self.values[:, None]
        value, slope = loss.value_and_slope(x, model)
        order, ends = self._by(mode)
        values = value.new_zeros(self.shape[mode], value.shape[1], dtype=torch.float64)
        add_segments(values, value.double()[order], ends, 0)
        grams = None
        if weight is not None:
            grams = self._sum(weight(x, model), factors, mode, pairs=True)
        return values.mT, self._sum(slope, factors, mode), grams

    def margins(self, loss: Curved, factors: Factors, fixed: Factors) -> list[Tensor]:
        """Return the sums of the curvatures."""
        found, sums = loss.curvature(self.values[:, None], self._model(factors, fixed)), []
        for mode, size in enumerate(self.shape):
            order, ends = self._by(mode)
            total = found.new_zeros(size, found.shape[1])
            add_segments(total, found[order], ends, 0)
            sums.append(total.mT)
        return sums

    def _model(self, factors: Factors, fixed: Factors) -> Tensor:
        """Return the model at the entries, shape (count, batch)."""
        batch, wide = len(factors[0]), [_wide(factor) for factor in extended(factors, fixed)]
        most = max(1, tile_of(TILE, wide[0]) // wide[0].shape[1])
        parts = [
            rows_product(wide, part).unflatten(1, (batch, -1)).sum(-1)
            for part in self.indices.split(most, dim=1)
        ]
        return torch.cat(parts)

    def _sum(self, each: Tensor, factors: Factors, mode: int, *, pairs: bool = False) -> Tensor:
        """Return sums of multiples of the other factors' rows, shape (batch, n, columns).

        Args:
            each: The multiples, shape (count, batch).
            factors: Each (batch, size, rank).
            mode: The mode.
            pairs: Whether to multiply the products of all pairs of columns instead.
        """
        batch, n, rank = factors[mode].shape
        order, ends = self._by(mode)
        others = [other for other in range(len(factors)) if other != mode]
        wide, indices = [_wide(factors[other]) for other in others], self.indices[others]
        columns = rank * (rank + 1) // 2 if pairs else rank
        total = each.new_zeros(n, batch * columns)
        most = max(1, tile_of(TILE, each) // (batch * columns))
        for begin in range(0, len(order), most):
            some = order[begin : begin + most]
            rows = rows_product(wide, indices[:, some]).unflatten(1, (batch, rank))
            rows = pair_products(rows) if pairs else rows
            add_segments(total, (rows * each[some].unsqueeze(-1)).flatten(1), ends, begin)
        apart: Tensor = total.unflatten(1, (batch, columns))
        return apart.movedim(0, 1).contiguous()


def extended(factors: Factors, fixed: Factors) -> list[Tensor]:
    """Return factors with further columns, the same for every member of a batch."""
    if not fixed:
        return list(factors)
    batch = len(factors[0])
    return [
        torch.cat([factor, more.to(factor).expand(batch, -1, -1)], -1)
        for factor, more in zip(factors, fixed, strict=True)
    ]


def _wide(factor: Tensor) -> Tensor:
    """Return members of the batch as columns, shape (size, batch * columns)."""
    return factor.movedim(0, 1).flatten(1)
