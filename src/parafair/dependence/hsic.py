"""How dependent two samples are: HSIC and its normalized form, without n x n matrices.

Everything here is a weighted sum of one sample's kernel, ``sum_ij W_ij k(x_i, x_j)``, where
the weights are the centered Gram matrix of the other sample. Both are made tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from parafair.dependence.kernels import Gaussian, Kernel
from parafair.errors import unknown_choice

Estimator: TypeAlias = Literal["biased", "unbiased"]
ESTIMATORS = ("biased", "unbiased")

# Bytes of a tile, all members of a batch together: small enough for a processor's cache, large
# enough to hide the cost of a call. A Gram matrix a little larger is better kept whole, because its
# weights are then computed once.
TILE_BYTES = {"cpu": 2**20, "cuda": 2**29}
WHOLE_BYTES = {"cpu": 2**21, "cuda": 2**29}

# A Gram matrix of at most this rank is kept as a low_rank factor instead of by kernel calls.
MOST_LOW_RANK = 64


@dataclass(frozen=True, eq=False)
class CenteredGram:
    """The centered Gram matrix of a sample, given out tile by tile.

    ``tile(i, j) = scale * (k(y_i, y_j) + left_i @ right_j.T)``; the product does the centering.
    If the Gram matrix has low rank (a category, a few numbers) the kernel is in the product
    too and `kernel` is None.

    Attributes:
        sample: Rows ``y``, shape (..., n, d).
        kernel: The kernel still to be evaluated, or None.
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

    @property
    def trace(self) -> float:
        """The sum of the diagonal, of one matrix and the biased estimator."""
        found = (self.left * self.right).sum()
        if self.kernel is not None:
            found = found + gram_diagonal(self.sample, self.kernel).sum()
        return float(found) * self.scale

    @property
    def grand(self) -> float:
        """The sum of all entries, of one matrix and the biased estimator: 0 if it is whole."""
        found = self.left.sum(-2) @ self.right.sum(-2)
        if self.kernel is not None:
            ones = torch.ones_like(self.sample[..., :1])
            found = found + gram_product(self.sample, self.kernel, ones).sum()
        return float(found) * self.scale

    def take(self, rows: Tensor) -> CenteredGram:
        """Return the part of some rows, centered as before, scaled for as many rows."""
        return replace(
            self,
            sample=self.sample[..., rows, :],
            left=self.left[..., rows, :],
            right=self.right[..., rows, :],
            scale=1 / len(rows) ** 2,
        )

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """Return the entries of one tile, shape (..., rows, columns)."""
        if rows == columns == slice(0, self.sample.shape[-2]):
            return self._whole
        return self._compute(rows, columns)

    @cached_property
    def _whole(self) -> Tensor:
        # Asked for only where one tile holds everything: a small sample, needed many times.
        everything = slice(0, self.sample.shape[-2])
        return self._compute(everything, everything)

    def _compute(self, rows: slice, columns: slice) -> Tensor:
        block = self.left[..., rows, :] @ self.right[..., columns, :].mT
        if self.kernel is not None:
            block = block + self.kernel(self.sample[..., rows, :], self.sample[..., columns, :])
        if self.zero_diagonal and rows == columns:
            block = block - torch.diag_embed(block.diagonal(dim1=-2, dim2=-1))
        return block * self.scale


def exact_low_rank_factor(sample: Tensor, kernel: Kernel) -> Tensor | None:
    """Return ``U`` with ``K = U U.T`` to rounding error, or None if its rank is not low."""
    if sample.ndim > 2:
        return None
    factor = low_rank_factor(sample, kernel, most=MOST_LOW_RANK + 1)
    return factor if factor.shape[1] <= MOST_LOW_RANK else None


def low_rank_factor(sample: Tensor, kernel: Kernel, *, most: int) -> Tensor:
    """Return ``U`` with ``K = U U.T`` as closely as `most` columns allow, shape (n, r).

    Pivoted Cholesky factorization: exact after g steps if the sample has g distinct rows, and
    short for smooth kernels of one or two numbers. Costs O(n r^2).
    """
    dtype = sample.dtype
    sample = sample.double()  # what is left out may be all that varies
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
    """Return the number of rows and columns of a tile, for a sample of shape (..., n, d)."""
    entry = sample.element_size() * max(1, sample.shape[:-2].numel())
    return max(32, isqrt(largest[sample.device.type] // entry))


def tiles(sample: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the tiles of the sample's n x n Gram matrix on and above the diagonal."""
    n, size = sample.shape[-2], tile_size(sample)
    for start in range(0, n, size):
        for other in range(start, n, size):
            yield slice(start, min(start + size, n)), slice(other, min(other + size, n))


def gram_product(sample: Tensor, kernel: Kernel, columns: Tensor) -> Tensor:
    """Return ``K @ columns``, shape (..., n, c), with ``K`` made tile by tile."""
    result = torch.zeros_like(columns.expand(*sample.shape[:-2], *columns.shape[-2:]))
    for rows, others in tiles(sample):
        block = kernel(sample[..., rows, :], sample[..., others, :])
        result[..., rows, :] += block @ columns[..., others, :]
        if rows != others:
            result[..., others, :] += block.mT @ columns[..., rows, :]
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
        # A batch of small samples: whole members at a time cost fewer calls than tiles of all.
        members = sample.split(max(1, (one // n) ** 2))
        parts = [kernel.within(part, weights.tile(slice(0, n), slice(0, n))) for part in members]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
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


class _HSIC(torch.autograd.Function):
    """HSIC with its gradients by formula, so that no graph over n x n entries is kept."""

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, kernels: tuple[Kernel, Kernel], estimator: Any
    ) -> Tensor:
        weights = CenteredGram.of(second, kernels[1], estimator)
        value, for_first = kernel_sum(first, kernels[0], weights)
        for_second = None
        if ctx.needs_input_grad[1]:
            weights = CenteredGram.of(first, kernels[0], estimator)
            for_second = kernel_sum(second, kernels[1], weights)[1]
        ctx.gradients = (for_first, for_second)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        first, second = (
            None if gradient is None else upstream[..., None, None] * gradient
            for gradient in ctx.gradients
        )
        return first, second, None, None


def hsic(
    first: Tensor,
    second: Tensor,
    *,
    kernels: tuple[Kernel, Kernel] = (Gaussian("median"), Gaussian("median")),
    estimator: Estimator = "biased",
) -> Tensor:
    """Estimate the dependence between two samples; zero means none was found.

    The biased estimator is ``<HKH, HLH> / n**2`` with ``H`` the centering matrix: Gretton et
    al., "Measuring statistical dependence with Hilbert-Schmidt norms", 2005. The unbiased one
    is that of Song et al., "Feature selection via dependence maximization", 2012, and may be
    negative. Symmetric, differentiable in both samples, and O(n) in memory; a bandwidth
    chosen by the median rule counts as constant in the derivative.

    Args:
        first: Rows of the first sample, shape (..., n, d).
        second: Rows of the second sample, shape (..., n, e).
        kernels: One kernel for each sample.
        estimator: "biased" or "unbiased".

    Returns:
        One number per member of the batch, shape (...).

    >>> rows = torch.tensor([[0.0], [1.0], [0.0], [1.0]], dtype=torch.float64)
    >>> round(float(khsic(rows, rows)), 4)  # ((1 - 1/e) / 2) ** 2
    0.0999
    """
    first, second = _as_rows("first", first), _as_rows("second", second)
    if first.shape[-2] != second.shape[-2]:
        raise ValueError(
            f"first and second must have the same number of rows, got {first.shape[-2]} and "
            f"{second.shape[-2]}; row i of both must belong to the same person"
        )
    if second.ndim > 2:
        batch = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
        first, second = (x.expand(*batch, *x.shape[-2:]) for x in (first, second))
    dtype = torch.promote_types(first.dtype, second.dtype)
    resolved = tuple(k.resolve(x) for k, x in zip(kernels, (first, second), strict=True))
    value: Tensor = _HSIC.apply(  # type: ignore[no-untyped-call]
        first.to(dtype), second.to(dtype), resolved, estimator
    )
    return value


def khsic(first: Tensor, second: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Return the paper's ``rho = <HKH, HLH> / n**2`` with Gaussian kernels, shape (...)."""
    return hsic(first, second, kernels=(Gaussian(gamma), Gaussian(gamma)))


def centered_alignment(
    first: Tensor,
    second: Tensor,
    *,
    kernels: tuple[Kernel, Kernel] = (Gaussian("median"), Gaussian("median")),
) -> Tensor:
    """Return the cosine between the centered Gram matrices (CKA), between 0 and 1, shape (...).

    Cortes, Mohri and Rostamizadeh, "Algorithms for learning kernels based on centered
    alignment", 2012. With Gaussian kernels and gamma = 1 this is the paper's normalized
    KHSIC. A sample without any variation gives 0: nothing can depend on it.
    """
    # In double precision: a sample that varies little is mostly lost when it is centered.
    first, second = _as_rows("first", first).double(), _as_rows("second", second).double()
    kernels = (kernels[0].resolve(first), kernels[1].resolve(second))
    cross = hsic(first, second, kernels=kernels)
    own = hsic(first, first, kernels=(kernels[0],) * 2) * hsic(
        second, second, kernels=(kernels[1],) * 2
    )
    # Centering leaves rounding errors of this size behind where there is no variation at all.
    sizes = [gram_diagonal(x, k).mean(-1) for x, k in zip((first, second), kernels, strict=True)]
    rounding = ((10 * torch.finfo(own.dtype).eps) ** 2 * sizes[0] * sizes[1]) ** 2
    return torch.where(own > rounding, cross / own.sqrt(), torch.zeros_like(cross))


@dataclass(frozen=True)
class PermutationTest:
    """Whether a dependence is larger than chance.

    Attributes:
        statistic: Biased HSIC of the samples as they are.
        p_value: Share of permutations, the identity included, with at least this statistic.
        null_mean: Mean of the statistic over the permutations: its level under independence.
        permutations: How many were drawn.
    """

    statistic: float
    p_value: float
    null_mean: float
    permutations: int


def permutation_test(
    first: Tensor,
    second: Tensor,
    *,
    kernels: tuple[Kernel, Kernel] = (Gaussian("median"), Gaussian("median")),
    permutations: int = 200,
    random_state: int | np.random.RandomState | None = None,
) -> PermutationTest:
    """Test independence by permuting the rows of the second sample.

    If the second sample's Gram matrix is low_rank (categories, a few numbers), all permutations
    share one pass over the first's; otherwise each costs a pass of its own.

    Args:
        first: Rows of the first sample, shape (n, d).
        second: Rows of the second sample, shape (n, e).
        kernels: One kernel for each sample.
        permutations: How many to draw; the p-value is at least 1 / (permutations + 1).
        random_state: Seed of the permutations.
    """
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    first, second = _as_rows("first", first), _as_rows("second", second)
    n, random = len(first), check_random_state(random_state)
    kernels = (kernels[0].resolve(first), kernels[1].resolve(second))
    statistic = float(hsic(first, second, kernels=kernels))
    orders = [torch.from_numpy(random.permutation(n)) for _ in range(permutations)]
    low_rank = exact_low_rank_factor(second, kernels[1])
    if low_rank is None:
        null = [float(hsic(first, second[order], kernels=kernels)) for order in orders]
    else:
        low_rank = (low_rank - low_rank.mean(0)).to(first.dtype)
        null = []
        at_once = max(1, 2**25 // low_rank.numel())
        for begin in range(0, permutations, at_once):
            shuffled = torch.stack(
                [low_rank[order] for order in orders[begin : begin + at_once]], 1
            )
            image = gram_product(first, kernels[0], shuffled.flatten(1)).reshape(shuffled.shape)
            null += ((image * shuffled).sum((0, 2)) / n**2).tolist()
    # Rounding must not decide ties, such as a permutation that changes nothing.
    level = statistic * (1 - torch.finfo(first.dtype).eps ** 0.5)
    p_value = (1 + sum(value >= level for value in null)) / (permutations + 1)
    return PermutationTest(statistic, p_value, float(np.mean(null)), permutations)


def _as_rows(name: str, sample: Tensor) -> Tensor:
    """Return a sample as floating point rows, shape (..., n, d)."""
    sample = torch.as_tensor(sample)
    if sample.ndim == 1:
        sample = sample.unsqueeze(-1)
    if sample.dtype not in (torch.float32, torch.float64):
        sample = sample.to(torch.get_default_dtype())
    if not torch.isfinite(sample).all():
        raise ValueError(f"{name} has NaN or infinite entries; remove or impute these rows")
    if sample.shape[-2] < 2:
        raise ValueError(f"{name} must have at least 2 rows, got shape {tuple(sample.shape)}")
    return sample
