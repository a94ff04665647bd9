"""Sums over segments on a CUDA device, by kernels that write one row per segment and no more.

Plain PyTorch writes the row of every entry to memory and reads it again, once for each factor. Here
an entry is read once: its positions and its value. The rows of the factors come from the cache.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.devices import can_compile

if TYPE_CHECKING:
    from parafair.algebra.segments import Segments

try:
    from parafair.algebra import segment_kernels
except ImportError:  # a CPU build of torch, or a system without Triton
    segment_kernels = None  # type: ignore[assignment]

# The largest rank, and numbers of a tile: its rows stay in registers.
MOST_COLUMNS, NUMBERS = 128, 4096

# Segments of a row that are added up at a time, and warps of a program.
SEGMENTS, WARPS = 32, 4


def is_fused(values: Tensor, rank: int) -> bool:
    """Tell whether the kernels can add up products of rows of this length."""
    return (
        segment_kernels is not None
        and values.is_cuda
        and values.dtype in (torch.float32, torch.float64)
        and rank <= MOST_COLUMNS
        and len(values) > 0
        and can_compile(values.device)
    )


def target(segments: Segments, factors: Factors) -> Tensor:
    """Return what `Segments.target` does."""
    found = _Launch(segments, factors)
    found.run(segment_kernels.target_kernel, found.sums)
    return found.by_row()


def errors(segments: Segments, factors: Factors) -> tuple[Tensor, Tensor]:
    """Return what `Segments.errors` does."""
    found, own = _Launch(segments, factors), factors[segments.mode].contiguous()
    squares = found.sums.new_empty(len(own), found.tiles, dtype=torch.float64)
    found.run(
        segment_kernels.errors_kernel, own, segments.rows, found.sums, squares, people=own.shape[1]
    )
    # A sum of this order is the same every time; one by atomic additions would not be.
    return squares.sum(1), found.by_row()


class _Launch:
    """The arguments that the kernels of all segments share."""

    def __init__(self, segments: Segments, factors: Factors) -> None:
        self.segments = segments
        self.count, self.length = segments.values.shape
        batch, self.people, self.rank = factors[segments.mode].shape
        first, *others = [f for mode, f in enumerate(factors) if mode != segments.mode]
        # All rows are one table; the padding has the row of zeros after the first factor.
        self.rows = torch.cat([first, torch.zeros_like(first[:, :1]), *others], 1)
        sizes = [first.shape[1] + 1, *(other.shape[1] for other in others)]
        starts = list(accumulate(sizes[:-1], initial=0))
        self.starts = torch.tensor(starts, dtype=torch.long, device=first.device)
        self.sums = first.new_empty(batch, self.count, self.rank)
        self.padded = 1 << (self.rank - 1).bit_length()
        self.tile = max(1, NUMBERS // (self.length * self.padded))

    @property
    def tiles(self) -> int:
        """The number of tiles that cover all segments."""
        return -(-self.count // self.tile)

    def run(self, kernel: Any, *others: Tensor, **sizes: int) -> None:
        """Compute the sums of all segments."""
        own = self.segments
        with torch.cuda.device_of(self.sums):
            kernel[(self.tiles, len(self.sums))](
                self.rows,
                self.starts,
                own.indices,
                own.values,
                *others,
                self.count,
                own.values.numel(),
                self.rows.shape[1],
                **sizes,
                MODES=len(own.indices),
                LENGTH=self.length,
                TILE=self.tile,
                RANK=self.rank,
                PADDED=self.padded,
                num_warps=WARPS,
            )

    def by_row(self) -> Tensor:
        """Return the sums of the rows, shape (batch, people, rank)."""
        total = self.sums.new_empty(len(self.sums), self.people, self.rank)
        with torch.cuda.device_of(self.sums):
            segment_kernels.rows_kernel[(self.people, len(self.sums))](
                self.sums,
                self.segments.ends,
                total,
                self.count,
                TILE=SEGMENTS,
                RANK=self.rank,
                PADDED=self.padded,
                num_warps=WARPS,
            )
        return total
