"""Row-wise sums over a list of entries, vectorized over segments of equal length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.algebra import fused_segments
from parafair.algebra.cp_tensor import Factors
from parafair.algebra.devices import tile_of
from parafair.algebra.row_grams import RowGrams

# Entries in a segment. Shorter segments spend more time on calls than on arithmetic; longer
# segments are mostly padding.
SHORTEST, LONGEST = 8, 64

# Numbers in memory at once; on a CPU, as many as fit into the cache.
HELD = {"cpu": 2**19, "cuda": 2**26}


@dataclass(frozen=True, eq=False)
class Segments:
    """Entries sorted by one mode; the entries of each row are cut into segments of equal length.

    The last segment of a row is padded with zeros. The padding has an index one past the end in the
    first of the other modes, where `sums` appends a row of zeros.

    Attributes:
        mode: The mode with one sum per row.
        indices: Positions in the other modes, in order, shape (order - 1, segments, length).
        values: Shape (segments, length).
        ends: 0, then the end of each row's segments, shape (rows + 1,).
    """

    mode: int
    indices: Tensor
    values: Tensor
    ends: Tensor

    @classmethod
    def of(cls, indices: Tensor, values: Tensor, *, shape: Sequence[int], mode: int) -> Segments:
        """Sort a list of entries and cut it into segments.

        Args:
            indices: Shape (order, count).
            values: Shape (count,).
            shape: Sizes of the modes.
            mode: The mode with one sum per row.
        """
        counts = torch.bincount(indices[mode], minlength=shape[mode])
        length = _length(len(values) / shape[mode])
        pieces = (counts + length - 1) // length
        rows = torch.repeat_interleave(pieces)
        before = pieces.cumsum(0) - pieces
        number = torch.arange(len(rows), device=rows.device) - before[rows]
        place = number[:, None] * length + torch.arange(length, device=rows.device)
        real = place < counts[rows, None]
        # Half the memory to read in every sum, unless a mode is longer than that.
        short = torch.int32 if max(shape) < 2**31 - 1 else torch.int64
        order = torch.argsort(indices[mode].to(short), stable=True)
        entry = order[((counts.cumsum(0) - counts)[rows, None] + place).where(real, 0)]
        others = [other for other in range(len(shape)) if other != mode]
        cut = torch.stack([indices[other].to(short)[entry] for other in others])
        cut[0].masked_fill_(~real, shape[others[0]])
        ends = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)])
        return cls(mode, cut, values[entry] * real, ends)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each segment, shape (segments,)."""
        found = torch.repeat_interleave(self.ends.diff(), output_size=len(self.values))
        return found.to(self.indices.dtype)

    def target(self, factors: Factors) -> Tensor:
        """Return ``M``, shape (batch, n, rank)."""
        batch, rows, rank = factors[self.mode].shape
        if fused_segments.is_fused(self.values, rank):
            return fused_segments.target(self, factors)
        total = self.values.new_zeros(rows, batch, rank)
        numbers = 2 * self.values.shape[1] * batch * rank
        for begin, values, product in self._parts(factors, numbers):
            found = (product * values).sum(2)
            add_segments(total.flatten(1), found.flatten(1), self.ends, begin)
        return total.movedim(0, 1).contiguous()

    def grams(self, factors: Factors) -> RowGrams:
        """Return the Gram matrices of the rows."""
        batch, n, rank = factors[self.mode].shape
        first, second = torch.triu_indices(rank, rank, device=self.values.device)
        numbers = max(self.values.shape[1], rank) * batch * (rank + 1)

        def form(rows: slice) -> Tensor:
            total = self.values.new_zeros(rows.stop - rows.start, batch, len(first))
            ends = self.ends[rows.start : rows.stop + 1]
            span = range(int(ends[0]), int(ends[-1]))
            for begin, _, product in self._parts(factors, numbers, span):
                found = (product.mT @ product)[..., first, second]
                add_segments(total.flatten(1), found.flatten(1), ends, begin)
            return total.movedim(0, 1).contiguous()

        return RowGrams(form, self.values[:0], (batch, n, rank))

    def errors(self, factors: Factors) -> tuple[Tensor, Tensor]:
        """Return the squared error and half its gradient in the factor of the mode.

        With ``e`` the error at an entry, row ``i`` of the gradient is ``sum e w``: O(rank) per
        entry, where the Gram matrices would take O(rank^2).

        Returns:
            The error in double precision, shape (batch,), and ``A G - M``, (batch, n, rank).
        """
        batch, rows, rank = factors[self.mode].shape
        if fused_segments.is_fused(self.values, rank):
            return fused_segments.errors(self, factors)
        own = factors[self.mode].movedim(0, 1)
        total = self.values.new_zeros(rows, batch, rank)
        error = self.values.new_zeros(batch, dtype=torch.float64)
        numbers = 2 * self.values.shape[1] * batch * rank
        for begin, values, product in self._parts(factors, numbers):
            product = product.movedim(1, 2)
            some = own[self.rows[begin : begin + len(product)]].unsqueeze(1)
            # The rows of the padding are zero, and so are its errors.
            errors = (product * some).sum(-1, keepdim=True).sub_(values.movedim(1, 2))
            error += errors.square().sum((0, 1, 3), dtype=torch.float64)
            found = (product * errors).sum(1)
            add_segments(total.flatten(1), found.flatten(1), self.ends, begin)
        return error, total.movedim(0, 1).contiguous()

    def _parts(
        self, factors: Factors, numbers: int, span: range | None = None
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield some segments at a time.

        Args:
            factors: Each (batch, size, rank).
            numbers: About how many numbers a segment takes.
            span: The segments; None for all.

        Yields:
            The number of the first segment, the values, shape (segments, 1, length, 1), and the
            products of the other factors' rows, shape (segments, batch, length, rank).
        """
        batch, _, rank = factors[self.mode].shape
        # Members of the batch become columns, so every index is looked up once.
        wide = [f.movedim(0, 1).flatten(1) for m, f in enumerate(factors) if m != self.mode]
        wide[0] = torch.cat([wide[0], torch.zeros_like(wide[0][:1])])
        pieces, length = self.values.shape
        most = max(1, tile_of(HELD, self.values) // numbers)
        span = range(pieces) if span is None else span
        for begin in span[::most]:
            part = slice(begin, min(begin + most, span.stop))
            product = rows_product(wide, self.indices[:, part].flatten(1))
            product = product.reshape(-1, length, batch, rank).movedim(2, 1)
            yield begin, self.values[part, None, :, None], product


def rows_product(factors: Sequence[Tensor], indices: Tensor) -> Tensor:
    """Return the entrywise product of the factors' rows at given indices, shape (count, columns).

    Args:
        factors: Shape (size, columns) each.
        indices: Row numbers for each factor, shape (factors, count).
    """
    product = factors[0].index_select(0, indices[0])
    for factor, index in zip(factors[1:], indices[1:], strict=True):
        product.mul_(factor.index_select(0, index))
    return product


def _length(mean: float) -> int:
    """Return the segment length for rows with `mean` entries on average."""
    length = SHORTEST
    while length < min(LONGEST, mean / 4):
        length *= 2
    return length


def add_segments(total: Tensor, rows: Tensor, ends: Tensor, begin: int) -> None:
    """Add to each row of `total` the sum of its segments among `rows`.

    Args:
        total: Shape (n, columns).
        rows: Sums of consecutive segments, the first is number `begin`; shape (count, columns).
        ends: 0, then the end of each row's segments, shape (n + 1,).
        begin: Number of the first segment in `rows`.
    """
    if not len(rows):  # a list without entries, whose others are zeros
        return
    edges = ends.new_tensor([begin, begin + len(rows)])
    first = int(torch.searchsorted(ends, edges[:1], right=True)) - 1
    last = int(torch.searchsorted(ends, edges[1:]))
    starts = (ends[first : last + 1] - begin).clamp(0, len(rows))
    total[first:last] += torch.segment_reduce(rows, "sum", offsets=starts, initial=0)
