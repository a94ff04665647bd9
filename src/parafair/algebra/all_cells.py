"""Sums of a loss over all cells of a tensor of zeros, which is never formed.

If the loss at a zero is ``a m + b m**2``, the sums follow from the factors alone: the sum of the
model is that of the products of column sums, and the sum of its squares that of the products of
Gram matrices. For other losses the model is computed at some cells at a time, which takes as long
as for a dense tensor, and no memory beyond that of these cells.

Each function has the arguments and results of a method of `parafair.algebra.entrywise.Entries`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, cross_gram, gram, product_of
from parafair.algebra.devices import tile_of
from parafair.algebra.entrywise import TILE, Curved, Entrywise, Weight, extended
from parafair.algebra.row_grams import pair_products
from parafair.algebra.segments import rows_product

# Cells of all modes but one whose products are formed at once.
COLUMNS = 2**12


@dataclass(frozen=True)
class ClosedZeros:
    """Sums of ``linear * m + quadratic * m**2`` over all cells."""

    linear: float
    quadratic: float

    def value_and_slopes(self, factors: Factors, fixed: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the sum in double precision, shape (batch,), and its slopes."""
        wide, rank = extended(factors, fixed), factors[0].shape[-1]
        totals = [factor.double().sum(-2, keepdim=True) for factor in wide]
        value = self.linear * product_of(totals).sum((-2, -1))
        slopes = [
            (self.linear * cross_gram(totals, mode)[..., :rank]).to(own).expand_as(own)
            for mode, own in enumerate(factors)
        ]
        if self.quadratic:
            grams = [gram(factor.double()) for factor in wide]
            value = value + self.quadratic * product_of(grams).sum((-2, -1))
            for mode, factor in enumerate(wide):
                own = cross_gram(grams, mode)[..., :rank].to(factor)
                slopes[mode] = slopes[mode] + 2 * self.quadratic * factor @ own
        return value, slopes

    def of_rows(
        self, factors: Factors, fixed: Factors, mode: int, *, weighted: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        wide, rank = extended(factors, fixed), factors[0].shape[-1]
        totals = [factor.double().sum(-2, keepdim=True) for factor in wide]
        grams = [gram(factor.double()) for factor in wide]
        own, sums, squares = wide[mode].double(), cross_gram(totals, mode), cross_gram(grams, mode)
        along = own @ squares
        values = (own * (self.linear * sums + self.quadratic * along)).sum(-1)
        slope = (self.linear * sums + 2 * self.quadratic * along)[..., :rank].to(factors[mode])
        if not weighted:
            return values, slope, None
        first, second = torch.triu_indices(rank, rank, device=own.device)
        pairs = 2 * self.quadratic * squares[:, None, first, second].to(slope)
        return values, slope, pairs.expand(-1, own.shape[1], -1)

    def margins(self, factors: Factors) -> list[Tensor]:
        """Return the sum of the curvatures at each index of each mode, (batch, size) each."""
        cells = prod(factor.shape[1] for factor in factors)
        return [
            factor.new_full(factor.shape[:2], 2 * self.quadratic * cells / factor.shape[1])
            for factor in factors
        ]


@dataclass(frozen=True)
class Tiles:
    """All cells of a tensor, some at a time.

    Attributes:
        shape: Sizes of the modes.
    """

    shape: tuple[int, ...]

    def value_and_slopes(
        self, loss: Entrywise, factors: Factors, fixed: Factors
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of ``f`` and its slopes; the model is computed once at each cell."""
        long, rank = self._longest, factors[0].shape[-1]
        slopes = [torch.zeros_like(factor) for factor in factors]
        total = factors[0].new_zeros(len(factors[0]), dtype=torch.float64)
        own = factors[long]
        for places, products in self._columns(factors, fixed, long):
            others = products[..., :rank]
            first = torch.zeros_like(others)
            for rows, model in self._rows(factors, fixed, long, products):
                value, slope = loss.value_and_slope(torch.zeros_like(model[:1]), model)
                total += value.sum((-2, -1), dtype=torch.float64)
                slopes[long][:, rows] += slope @ others
                first.baddbmm_(slope.mT, own[:, rows])
            self._scatter(slopes, first, factors, places)
        return total, slopes

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        batch, n, rank = factors[mode].shape
        values = factors[mode].new_zeros(batch, n, dtype=torch.float64)
        slopes, pairs = torch.zeros_like(factors[mode]), rank * (rank + 1) // 2
        grams = None if weight is None else factors[mode].new_zeros(batch, n, pairs)
        for _, products in self._columns(factors, fixed, mode):
            others = products[..., :rank]
            both = None if weight is None else pair_products(others)
            for rows, model in self._rows(factors, fixed, mode, products):
                zeros = torch.zeros_like(model[:1])
                value, slope = loss.value_and_slope(zeros, model)
                values[:, rows] += value.sum(-1, dtype=torch.float64)
                slopes[:, rows] += slope @ others
                if weight is not None and grams is not None and both is not None:
                    grams[:, rows] += weight(zeros, model) @ both
        return values, slopes, grams

    def margins(self, loss: Curved, factors: Factors, fixed: Factors) -> list[Tensor]:
        """Return the sums of the curvatures at each index of each mode, (batch, size) each."""
        long = self._longest
        ones = [torch.ones_like(factor[..., :1]) for factor in factors]
        sums = [torch.zeros_like(own) for own in ones]
        for places, products in self._columns(factors, fixed, long):
            first = torch.zeros_like(products[..., :1])
            for rows, model in self._rows(factors, fixed, long, products):
                found = loss.curvature(torch.zeros_like(model[:1]), model)
                sums[long][:, rows] += found.sum(-1, keepdim=True)
                first += found.sum(-2).unsqueeze(-1)
            self._scatter(sums, first, ones, places)
        return [own.squeeze(-1) for own in sums]

    @property
    def _longest(self) -> int:
        return max(range(len(self.shape)), key=lambda mode: self.shape[mode])

    def _columns(
        self, factors: Factors, fixed: Factors, mode: int
    ) -> Iterator[tuple[dict[int, Tensor], Tensor]]:
        """Yield some cells of all modes but one: their places, and the products of the rows there.

        Yields:
            The places by mode, shape (count,) each, and products of shape (batch, count, columns).
        """
        others = [other for other in range(len(self.shape)) if other != mode]
        sizes, batch = tuple(self.shape[other] for other in others), len(factors[0])
        wide = extended(factors, fixed)
        flat = [wide[other].movedim(0, 1).flatten(1) for other in others]
        for begin in range(0, prod(sizes), COLUMNS):
            cells = torch.arange(begin, min(begin + COLUMNS, prod(sizes)), device=factors[0].device)
            places = torch.stack(torch.unravel_index(cells, sizes))
            products = rows_product(flat, places).unflatten(1, (batch, -1)).movedim(1, 0)
            yield dict(zip(others, places, strict=True)), products.contiguous()

    def _rows(
        self, factors: Factors, fixed: Factors, mode: int, products: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield some rows of a mode, and the model at their cells, shape (batch, rows, count)."""
        own = extended([factors[mode]], [fixed[mode]] if fixed else [])[0]
        at_once = max(1, tile_of(TILE, own) // products[..., 0].numel())
        for begin in range(0, own.shape[1], at_once):
            rows = slice(begin, min(begin + at_once, own.shape[1]))
            yield rows, own[:, rows] @ products.mT

    def _scatter(
        self, sums: list[Tensor], first: Tensor, factors: Factors, places: dict[int, Tensor]
    ) -> None:
        """Add the sums of some cells over one mode to those of each other mode.

        Args:
            sums: Those of each mode, shape (batch, size, columns) each; changed in place.
            first: The sums over the one mode, shape (batch, count, columns).
            factors: Each (batch, size, columns).
            places: Where the cells are in the other modes.
        """
        for mode, place in places.items():
            found = first
            for other, index in places.items():
                if other != mode:
                    found = found * factors[other].index_select(1, index)
            sums[mode].index_add_(1, place, found)
