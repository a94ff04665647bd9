"""Whole rows compared on a CUDA device by kernels that hold no Gram matrix in memory.

Each kernel computes the similarities of a tile of pairs in registers, uses all scales of them and
forgets them. So memory is only read for the rows, and all chunks of people are one launch. Products
are of single precision: each is three products of the tensor cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
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


def compare_rows(
    rows: Tensor, scorer: Score, places: Tensor, runs: Sequence[tuple[int, ...]] | None = None
) -> tuple[Tensor, Tensor]:
    """Return what `parafair.dependence.views.compare_rows` does."""
    if runs is not None:
        return _compare_alike(rows.contiguous(), scorer, places, tuple(runs))
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


class _Runs(NamedTuple):
    """People of each chunk who follow each other and have equal weights.

    Attributes:
        bounds: Where runs begin, and the end of the last, shape (chunks, runs + 1).
        tiles: The first person and the run of each tile, shape (chunks, tiles, 2). A tile without
            people begins at the end of its run.
        of_runs: Weights of a run, shape (chunks, runs, r).
        of_tiles: Weights of the run of a tile, shape (chunks, tiles, r).
    """

    bounds: Tensor
    tiles: Tensor
    of_runs: Tensor
    of_tiles: Tensor

    @classmethod
    def of(cls, runs: tuple[tuple[int, ...], ...], own: Tensor) -> _Runs:
        """Return the runs of all chunks, whose people have these weights (chunks, people, r)."""
        bounds, tiles = _bounds_and_tiles(runs, own.device)
        # The last place of a chunk may repeat its first person, without weight.
        people = own.shape[1] - (own[:, -1:, -1] == 0).to(bounds)
        bounds = bounds.minimum(people)
        starts = bounds[:, :-1].long().clamp_max(own.shape[1] - 1)
        of_runs = own.gather(1, starts.unsqueeze(-1).expand(-1, -1, own.shape[-1]))
        which = tiles[..., 1:].long().expand(-1, -1, own.shape[-1])
        return cls(bounds.contiguous(), tiles, of_runs, of_runs.gather(1, which))


@lru_cache(maxsize=32)
def _bounds_and_tiles(
    runs: tuple[tuple[int, ...], ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return `bounds` and `tiles` of `_Runs`; chunks with fewer runs have empty ones at the end."""
    most = max(map(len, runs))
    sizes = np.array([[*own, *[0] * (most - len(own))] for own in runs])
    bounds = np.concatenate([np.zeros_like(sizes[:, :1]), sizes.cumsum(1)], 1)
    counts = -(-sizes // TILE)
    tiles = np.zeros((len(runs), counts.sum(1).max(), 2), dtype=np.int32)
    tiles[..., 0] = bounds[:, -1:]
    for chunk, count in enumerate(counts):
        which = np.repeat(np.arange(most), count)
        number = np.arange(len(which)) - (count.cumsum() - count)[which]
        tiles[chunk, : len(which), 0] = bounds[chunk, which] + TILE * number
        tiles[chunk, : len(which), 1] = which
    bounds_there, tiles_there = (
        torch.from_numpy(part.astype(np.int32)).to(device) for part in (bounds, tiles)
    )
    return bounds_there, tiles_there


def _compare_alike(
    rows: Tensor, scorer: Score, places: Tensor, runs: tuple[tuple[int, ...], ...]
) -> tuple[Tensor, Tensor]:
    """Return what `compare_rows` does, where people who are alike follow each other."""
    found = _Runs.of(runs, scorer.weights.columns)
    chunks, count, _ = found.of_runs.shape
    parts = rows.new_zeros(len(rows), chunks, found.tiles.shape[1], count, len(ROW_GAMMAS))
    _launch_alike(row_kernels.alike_sums_kernel, rows, places, found, parts)
    # Sums of runs nearly cancel each other. A sum of this order is the same every time.
    pairs = parts.double().mT @ found.of_runs.double().unsqueeze(1)
    sums = (pairs * found.of_tiles.double().unsqueeze(2)).sum(2)
    value, slopes = scorer.score(sums.to(rows))
    first = ROW_GAMMAS[0] / (2 * rows.shape[-1])
    gammas = first * 4.0 ** torch.arange(len(ROW_GAMMAS), device=rows.device, dtype=rows.dtype)
    pull = 4 * gammas[:, None] * slopes
    by_runs = (found.of_runs.unsqueeze(2) * found.of_runs.unsqueeze(1)).flatten(1, 2)
    gradient = torch.zeros_like(rows)
    _launch_alike(
        row_kernels.alike_gradient_kernel, rows, places, found, by_runs @ pull.mT, gradient
    )
    return value, gradient


def _launch_alike(kernel: Any, rows: Tensor, places: Tensor, runs: _Runs, *others: Tensor) -> None:
    batch, everybody, width = rows.shape
    chunks, people = places.shape
    unit = (ROW_GAMMAS[0] / (2 * width * log(2))) ** 0.5
    with torch.cuda.device_of(rows):
        kernel[batch * chunks, runs.tiles.shape[1]](
            rows,
            places,
            runs.bounds,
            runs.tiles,
            *others,
            chunks,
            everybody,
            people,
            runs.of_runs.shape[1],
            unit,
            WIDTH=width,
            PADDED_WIDTH=max(16, _power(width)),
            SCALES=len(ROW_GAMMAS),
            PADDED_SCALES=_power(len(ROW_GAMMAS)),
            TILE=TILE,
            num_warps=WARPS,
        )


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
            people,
            ROW_GAMMAS[0] / (2 * width),
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
