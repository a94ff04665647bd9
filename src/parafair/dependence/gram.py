"""Centered Gram matrices and weighted sums of a kernel, tile by tile, without n x n matrices.

Everything here is ``sum_ij W_ij k(x_i, x_j)``, a weighted sum of one sample's kernel. The weights
are the centered Gram matrix of the other sample. Both are computed tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from parafair.algebra.devices import tile_of
from parafair.dependence.fused import is_fused
from parafair.dependence.fused import kernel_sum as fused_kernel_sum
from parafair.dependence.kernels import Gaussian, Kernel
from parafair.errors import unknown_choice

Estimator: TypeAlias = Literal["biased", "unbiased"]
ESTIMATORS = ("biased", "unbiased")

# Bytes of a tile for all members of a batch: small enough for a processor's cache, large enough
# to hide the cost of a call. A slightly larger Gram matrix is kept whole, because its weights are
# then computed once.
TILE_BYTES = {"cpu": 2**20, "cuda": 2**29}
WHOLE_BYTES = {"cpu": 2**21, "cuda": 2**29}

# A Gram matrix of at most this rank is stored as a low-rank factor, which replaces kernel calls.
MOST_LOW_RANK = 64


@dataclass(frozen=True, eq=False)
class CenteredGram:
    """The centered Gram matrix of a sample, computed tile by tile.

    ``tile(i, j) = scale * (k(y_i, y_j) + left_i @ right_j.T)``; the product does the centering.
    If the Gram matrix has low rank (a category, a few numbers), the product contains the kernel
    too, and `kernel` is None. For the biased estimator it is then that of centered columns.

    Attributes:
        sample: Rows ``y``, shape (..., n, d).
        kernel: The kernel to evaluate, or None.
        left: Shape (..., n, r).
        right: Shape (..., n, r).
        zero_diagonal: Whether the diagonal is zero, as in the unbiased estimator.
        scale: Multiplies every entry.
    """

    sample: Tensor
    kernel: Kernel | None
    left: Tensor
    right: Tensor
    zero_diagonal: bool
    scale: float = 1.0

    @classmethod
    def of(cls, sample: Tensor, kernel: Kernel, estimator: Estimator = "biased") -> CenteredGram:
        """Center ``K``: twice for the biased estimator, U-centered for the unbiased one.

        The scale is 1 over the number of terms, so that HSIC is the sum of this matrix times
        the other sample's Gram matrix, entry by entry.
        """
        if estimator not in ESTIMATORS:
            raise unknown_choice("estimator", estimator, ESTIMATORS)
        n, zero_diagonal = sample.shape[-2], estimator == "unbiased"
        if n < 4 and zero_diagonal:
            raise ValueError(f"the unbiased estimator needs at least 4 rows, got {n}")
        kernel = kernel.resolve(sample)
        low_rank = exact_low_rank_factor(sample, kernel)
        if low_rank is not None and not zero_diagonal:
            centered = low_rank - low_rank.mean(-2, keepdim=True)
            return cls(sample, None, centered, centered, zero_diagonal, 1 / n**2)
        ones = sample.new_ones(*sample.shape[:-1], 1)
        if low_rank is None:
            sums = gram_product(sample, kernel, ones)
            diagonal = gram_diagonal(sample, kernel).unsqueeze(-1)
        else:
            sums = low_rank @ low_rank.sum(-2).unsqueeze(-1)
            diagonal = low_rank.square().sum(-1, keepdim=True)
        # Szekely and Rizzo's U-centering differs from double centering by these divisors.
        row, grand = (n - 2, (n - 1) * (n - 2)) if zero_diagonal else (n, n * n)
        sums = sums - diagonal if zero_diagonal else sums
        shift, total = sums / row, sums.sum(-2, keepdim=True) / grand
        left, right = torch.cat([shift, ones], -1), torch.cat([-ones, total - shift], -1)
        scale = 1 / (n * (n - 3)) if zero_diagonal else 1 / n**2
        if low_rank is None:
            return cls(sample, kernel, left, right, zero_diagonal, scale)
        left, right = torch.cat([low_rank, left], -1), torch.cat([low_rank, right], -1)
        return cls(sample, None, left, right, zero_diagonal, scale)

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """Return the entries of one tile, shape (..., rows, columns)."""
        if rows == columns == slice(0, self.sample.shape[-2]):
            return self._whole
        return self._compute(rows, columns)

    @cached_property
    def _whole(self) -> Tensor:
        # Used only where one tile holds everything: a small sample, needed many times.
        everything = slice(0, self.sample.shape[-2])
        return self._compute(everything, everything)

    def _compute(self, rows: slice, columns: slice) -> Tensor:
        tile = self.left[..., rows, :] @ self.right[..., columns, :].mT
        if self.kernel is not None:
            tile = tile + self.kernel(self.sample[..., rows, :], self.sample[..., columns, :])
        if self.zero_diagonal and rows == columns:
            tile = tile - torch.diag_embed(tile.diagonal(dim1=-2, dim2=-1))
        return tile * self.scale


def exact_low_rank_factor(sample: Tensor, kernel: Kernel) -> Tensor | None:
    """Return ``U`` with ``K = U U.T`` to rounding error, or None if its rank is not low."""
    if sample.ndim > 2:
        return None
    factor = low_rank_factor(sample, kernel, most=MOST_LOW_RANK + 1)
    return factor if factor.shape[1] <= MOST_LOW_RANK else None


def low_rank_factor(sample: Tensor, kernel: Kernel, *, most: int) -> Tensor:
    """Return ``U`` with ``K = U U.T`` as closely as `most` columns allow, shape (n, r).

    Pivoted Cholesky factorization: exact after g steps if the sample has g distinct rows, and
    short for smooth kernels of one or two numbers. The cost is O(n r^2).
    """
    dtype = sample.dtype
    sample = sample.double()  # in single precision, rounding could hide all variation
    residual = gram_diagonal(sample, kernel)
    smallest = residual.max() * 16 * torch.finfo(sample.dtype).eps
    factor = sample.new_zeros(len(sample), 0)
    while residual.max() > smallest and factor.shape[1] < most:
        pivot = int(residual.argmax())
        column = kernel(sample, sample[pivot : pivot + 1]).squeeze(-1) - factor @ factor[pivot]
        column = column / residual[pivot].sqrt()
        factor = torch.cat([factor, column.unsqueeze(-1)], -1)
        residual = (residual - column.square()).clamp_min(0)
        residual[pivot] = 0
    return factor.to(dtype)


def gram_diagonal(sample: Tensor, kernel: Kernel) -> Tensor:
    """Return ``k(x_i, x_i)`` for every row, shape (..., n), as a batch of 1 x 1 Gram matrices."""
    rows = sample.unsqueeze(-2)
    return kernel(rows, rows).flatten(-3)


def tile_size(sample: Tensor, largest: dict[str, int] = TILE_BYTES) -> int:
    """Return the number of rows and columns of a tile, for a sample of shape (..., n, d).

    Args:
        sample: The sample.
        largest: Bytes of a tile by device, as `tile_of` takes them.
    """
    entry = sample.element_size() * max(1, sample.shape[:-2].numel())
    return max(32, isqrt(tile_of(largest, sample) // entry))


def tiles(sample: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the tiles of the sample's n x n Gram matrix on and above the diagonal."""
    n, size = sample.shape[-2], tile_size(sample)
    for start in range(0, n, size):
        for other in range(start, n, size):
            yield slice(start, min(start + size, n)), slice(other, min(other + size, n))


def gram_product(sample: Tensor, kernel: Kernel, columns: Tensor) -> Tensor:
    """Return ``K @ columns``, shape (..., n, c), with ``K`` computed tile by tile."""
    result = torch.zeros_like(columns.expand(*sample.shape[:-2], *columns.shape[-2:]))
    for rows, others in tiles(sample):
        tile = kernel(sample[..., rows, :], sample[..., others, :])
        result[..., rows, :] += tile @ columns[..., others, :]
        if rows != others:
            result[..., others, :] += tile.mT @ columns[..., rows, :]
    return result


def kernel_sum(sample: Tensor, kernel: Kernel, weights: CenteredGram) -> tuple[Tensor, Tensor]:
    """Return ``sum_ij W_ij k(x_i, x_j)`` and its gradient in the sample.

    Args:
        sample: Rows ``x``, shape (..., n, d).
        kernel: The kernel ``k``.
        weights: The symmetric matrix ``W``.

    Returns:
        The sum, shape (...), and its gradient, shape (..., n, d).
    """
    n = sample.shape[-2]
    if n <= tile_size(sample, WHOLE_BYTES):
        return kernel.within(sample, weights.tile(slice(0, n), slice(0, n)))
    one = tile_size(sample[0], WHOLE_BYTES) if sample.ndim == 3 else 0
    if n <= one and weights.sample.ndim == 2:
        # A batch of small samples: whole members at a time need fewer calls than tiles.
        members = sample.split(max(1, (one // n) ** 2))
        parts = [kernel.within(part, weights.tile(slice(0, n), slice(0, n))) for part in members]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    if isinstance(kernel, Gaussian) and weights.kernel is None and is_fused(sample, weights.left):
        value, gradient = fused_kernel_sum(
            sample.reshape(-1, *sample.shape[-2:]), kernel.scale, weights.left, weights.right
        )
        if weights.zero_diagonal:  # a row is at distance zero from itself
            value = value - (weights.left * weights.right).sum()
        value, gradient = value.reshape(sample.shape[:-2]), gradient.reshape(sample.shape)
        return weights.scale * value, weights.scale * gradient
    value = sample.new_zeros(sample.shape[:-2])
    gradient = torch.zeros_like(sample)
    for rows, others in tiles(sample):
        first, weight = sample[..., rows, :], weights.tile(rows, others)
        if rows == others:
            part, for_first = kernel.within(first, weight)
            value += part
            gradient[..., rows, :] += for_first
        else:
            part, for_first, for_second = kernel.between(first, sample[..., others, :], weight)
            value += 2 * part
            gradient[..., rows, :] += 2 * for_first
            gradient[..., others, :] += 2 * for_second
    return value, gradient


class _KernelSum(torch.autograd.Function):
    """`kernel_sum` as a differentiable function of the sample."""

    @staticmethod
    def forward(ctx: Any, sample: Tensor, kernel: Kernel, weights: CenteredGram) -> Tensor:
        value, ctx.gradient = kernel_sum(sample, kernel, weights)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return upstream[..., None, None] * ctx.gradient, None, None


def differentiable_kernel_sum(sample: Tensor, kernel: Kernel, weights: CenteredGram) -> Tensor:
    """Return ``sum_ij W_ij k(x_i, x_j)``, shape (...), for automatic differentiation."""
    value: Tensor = _KernelSum.apply(sample, kernel, weights)  # type: ignore[no-untyped-call]
    return value
