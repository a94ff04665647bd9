"""Whole rows compared on a CUDA device by kernels that hold no Gram matrix in memory.

Each kernel computes the similarities of a tile of pairs in registers, uses all scales of them and
forgets them. So memory is only read for the rows, and all chunks of people are one launch. Products
are of single precision: each is three products of the tensor cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from parafair.algebra.devices import can_compile
from parafair.dependence.scales import ROW_GAMMAS

if TYPE_CHECKING:
    from parafair.dependence.score import Score

try:
    from parafair.dependence import row_kernels
except ImportError:  # a CPU build of torch, or a system without Triton
    row_kernels = None  # type: ignore[assignment]

# The largest number of columns of the rows and of the weights: a tile of both stays in registers.
MOST_COLUMNS, MOST_WEIGHTS = 64, 32

# Weights of at most this many columns are multiplied one by one.
FEW_WEIGHTS = 4

# People of a tile, and threads that compute it.
TILE, WARPS = 64, 4


def is_fused(rows: Tensor, columns: Tensor) -> bool:
    """Tell whether the kernels can compare rows (..., n, d) with weights of shape (..., r)."""
    return (
        row_kernels is not None
        and rows.is_cuda
        and rows.dtype == torch.float32
        and rows.shape[-1] <= MOST_COLUMNS
        and columns.shape[-1] <= MOST_WEIGHTS
        and can_compile(rows.device)
    )


def compare_rows(rows: Tensor, scorer: Score, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `parafair.dependence.views.compare_rows` does."""
    points, own = rows[:, places], scorer.weights.columns
    value, slopes = scorer.score(_sums(points, own))
    first = ROW_GAMMAS[0] / (2 * rows.shape[-1])
    gammas = first * 4.0 ** torch.arange(len(ROW_GAMMAS), device=rows.device, dtype=rows.dtype)
    pull = (4 * gammas[:, None] * slopes).contiguous()
    moved = torch.empty_like(points)
    _launch(row_kernels.gradient_kernel, points, own, pull, moved)
    gradient = torch.zeros_like(rows)
    # Filled-up places have weight zero, so adding them changes nothing.
    gradient.index_add_(1, places.flatten(), moved.flatten(1, 2))
    return value, gradient


def row_sums(rows: Tensor, columns: Tensor, places: Tensor) -> Tensor:
    """Return what `parafair.dependence.views.row_sums` does."""
    return _sums(rows[:, places], columns)


def kernel_sum(sample: Tensor, gamma: float, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``sum over i, j of (l_i . r_j) k(x_i, x_j)`` and its gradient in the sample.

    The kernel is ``exp(-gamma |x - y|**2)``. The matrix of all ``l_i . r_j`` is symmetric.

    Args:
        sample: Rows ``x``, shape (batch, n, d).
        gamma: The multiplier of squared distances.
        left: Rows ``l``, shape (n, r).
        right: Rows ``r``, shape (n, r).
    """
    batch, people, width = sample.shape
    # Far from the origin, squared distances would be small differences of large numbers.
    points = sample - sample.mean(-2, keepdim=True)
    moved, masses = torch.empty_like(points), points.new_empty(batch, people)
    with torch.cuda.device(sample.device):
        row_kernels.weighted_kernel[(batch, _tiles(people))](
            points.contiguous(),
            left.contiguous(),
            right.contiguous(),
            moved,
            masses,
            gamma,
            PEOPLE=people,
            FEW=left.shape[-1] <= FEW_WEIGHTS,
            TILE=TILE,
            num_warps=WARPS,
            **_widths(width, left.shape[-1]),
        )
    return masses.sum(-1), 4 * gamma * moved


def _sums(points: Tensor, own: Tensor) -> Tensor:
    """Return sums of shape (batch, chunks, kernels, r) of points (batch, chunks, people, d)."""
    batch, chunks, people, _ = points.shape
    parts = points.new_empty(batch, chunks, _tiles(people), len(ROW_GAMMAS), own.shape[-1])
    _launch(row_kernels.sums_kernel, points, own, parts)
    # A sum of this order is the same every time; one by atomic additions would not be.
    return parts.sum(2)


def _launch(kernel: Any, points: Tensor, own: Tensor, *others: Tensor) -> None:
    batch, chunks, people, width = points.shape
    weights = own.shape[-1]
    grid = (batch * chunks, _tiles(people))
    with torch.cuda.device(points.device):
        kernel[grid](
            points.contiguous(),
            own.contiguous(),
            *others,
            chunks,
            ROW_GAMMAS[0] / (2 * width),
            PEOPLE=people,
            SCALES=len(ROW_GAMMAS),
            PADDED_SCALES=_power(len(ROW_GAMMAS)),
            TILE=TILE,
            num_warps=WARPS,
            **_widths(width, weights),
        )


def _widths(width: int, weights: int) -> dict[str, int]:
    """Return the numbers of columns; a product on tensor cores has at least 16 of them."""
    return {
        "WIDTH": width,
        "WEIGHTS": weights,
        "PADDED_WIDTH": max(16, _power(width)),
        "PADDED_WEIGHTS": max(16, _power(weights)),
    }


def _tiles(people: int) -> int:
    """Return the number of tiles that cover all people of a chunk."""
    return -(-people // TILE)


def _power(size: int) -> int:
    """Return the next power of two, as the sizes of a tile are."""
    return 1 << (size - 1).bit_length()
