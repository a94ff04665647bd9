"""The squared error in one block whose factor is non-negative."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parafair.algebra.devices import tile_of
from parafair.algebra.least_squares.constrained import ConstrainedBlock
from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock
from parafair.algebra.nnls import pass_columns, pass_columns_of_rows, solve_non_negative
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import FORMED, RowGrams

# Passes over the columns in one update of a factor, and before pivoting.
PASSES, PASSES_BEFORE = 8, 10


@dataclass(frozen=True, eq=False)
class NonNegativeBlock(ConstrainedBlock):
    """A block as a function of non-negative factors.

    What it returns is non-negative, exactly. Nothing that it returns has a larger value than what
    it was given.
    """

    @classmethod
    def of(cls, block: object) -> NonNegativeBlock:
        """Return the function of non-negative factors."""
        assert isinstance(block, (SharedBlock, RowwiseBlock))
        return cls(block)

    def take(self, members: Tensor) -> NonNegativeBlock:
        """Return the function for some members of the batch."""
        return NonNegativeBlock(self.free.take(members))

    def pool(self, rows: Tensor, weights: Tensor) -> NonNegativeBlock:
        """Return the function of rows that several rows have in common, up to a constant."""
        return NonNegativeBlock(self.free.pool(rows, weights))

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the non-negative multiple of a factor with the smallest value, shape (batch,).

        If that is 0, which would end a fit, it is the size of the best negative one.
        """
        return self.free.best_multiple(factor).abs()

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the exact minimizer; the form must be zero.

        Quadratic penalties couple the rows, and take majorize-minimize steps instead.
        """
        if form.values.shape[-1] or form.ridge:
            raise ValueError("a non-negative block has no exact minimizer with a quadratic form")
        start = self._passed(torch.zeros_like(self.target), PASSES_BEFORE)
        found, (batch, _, rank) = torch.empty_like(start), self.target.shape
        for rows, part in _triangles(self.free):
            own = part.expand(batch, rows.stop - rows.start, part.shape[-1])
            parts = (self.target[:, rows], own, start[:, rows])
            flat = solve_non_negative(*(part.reshape(-1, part.shape[-1]) for part in parts))
            found[:, rows] = flat.reshape(batch, -1, rank)
        return found

    def improve(self, factor: Tensor) -> Tensor:
        """Return the factor after a few passes over its columns."""
        return self._passed(factor.clamp_min(0.0), PASSES)

    def proximal(
        self, anchor: Tensor, slope: Tensor, weight: Tensor, basis: Tensor | None = None
    ) -> Tensor:
        """Decrease this + ``<slope, A> + weight/2 ||(A - anchor) B^-1||^2`` from the anchor.

        Args:
            anchor: Non-negative, shape (batch, n, rank).
            slope: Shape (batch, n, rank).
            weight: Positive, shape (batch,).
            basis: ``B``, shape (batch, rank, rank); None for the identity.
        """
        scale, rank = self.free.entries / 2, self.target.shape[-1]
        metric = torch.eye(rank, dtype=anchor.dtype, device=anchor.device)
        if basis is not None:
            inverse = torch.linalg.inv(basis)
            metric = inverse @ inverse.mT
        more = scale * weight[:, None, None] * metric
        target = self.target - scale * slope + anchor @ more
        return NonNegativeBlock(_with_more(self.free, target, more))._passed(anchor, PASSES)

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Decrease the value over one column at a time at fixed norm; one pass.

        Without signs, the best column points along some vector (see `SharedBlock`); with them, it
        points along the non-negative part of that vector.
        """
        factor = factor.clone()
        norms = torch.linalg.vector_norm(factor, dim=-2)
        tiny = torch.finfo(factor.dtype).tiny
        for r in range(factor.shape[-1]):
            slope, largest = torch.empty_like(factor[..., r]), torch.zeros_like(norms[..., :1])
            for rows, gram in _matrices(self.free):
                own = self.target[:, rows, r] - (gram[..., r, :] * factor[:, rows]).sum(-1)
                slope[:, rows] = own
                largest = torch.maximum(largest, gram[..., r, r].amax(-1, keepdim=True))
            column = (slope + largest * factor[..., r]).clamp_min(0.0)
            length = torch.linalg.vector_norm(column, dim=-1)
            scaled = column * (norms[..., r] / length.clamp_min(tiny)).unsqueeze(-1)
            factor[..., r] = torch.where(length.unsqueeze(-1) > tiny, scaled, factor[..., r])
        return factor

    def _passed(self, factor: Tensor, passes: int) -> Tensor:
        if isinstance(self.free, SharedBlock):
            return pass_columns(self.target, self.free.gram, factor, passes=passes)
        found = torch.empty_like(factor)
        for rows, grams in self.free.grams.matrices():
            parts = (self.target[:, rows], grams, factor[:, rows])
            found[:, rows] = pass_columns_of_rows(*parts, passes=passes)
        return found


def _triangles(block: SharedBlock | RowwiseBlock) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows at a time, and their triangles, shape (batch, rows or 1, pairs)."""
    if isinstance(block, RowwiseBlock):
        yield from block.grams.parts()
        return
    n, rank = block.target.shape[-2:]
    first, second = torch.triu_indices(rank, rank, device=block.gram.device)
    triangles = block.gram[:, first, second].unsqueeze(1)
    at_once = max(1, tile_of(FORMED, block.gram) // len(first))
    for begin in range(0, n, at_once):
        yield slice(begin, min(begin + at_once, n)), triangles


def _matrices(block: SharedBlock | RowwiseBlock) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows at a time, and their matrices, shape (batch, rows or 1, rank, rank)."""
    if isinstance(block, RowwiseBlock):
        yield from block.grams.matrices()
    else:
        yield slice(0, block.target.shape[-2]), block.gram.unsqueeze(1)


def _with_more(
    block: SharedBlock | RowwiseBlock, target: Tensor, more: Tensor
) -> SharedBlock | RowwiseBlock:
    """Return a block with another target and with a matrix added to every ``G``."""
    if isinstance(block, SharedBlock):
        return replace(block, target=target, gram=block.gram + more)
    rank = target.shape[-1]
    first, second = torch.triu_indices(rank, rank, device=more.device)
    added = more[:, first, second].unsqueeze(1)
    grams: RowGrams = block.grams.changed(lambda part: part + added)
    return replace(block, target=target, grams=grams)
