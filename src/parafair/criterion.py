"""The invariant criterion: how much people's rows depend on their features, whatever the units.

Rows are whitened and their columns standardized before any kernel looks at them, so that
rescaling or shifting columns changes nothing, and mixing them changes only the part that looks
at single columns. Kernels cover distances a factor of 16 apart, which makes it costly to hide
people by throwing a few far away, so that whitening squeezes all others together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from parafair.independence import (
    MOST_THIN_RANK,
    CenteredGram,
    PermutationTest,
    gram_product,
    kernel_sum,
    thin_factor,
)
from parafair.kernels import Delta, Gaussian, Gaussians, Kernel
from parafair.sensitive import SensitiveFeatures

# Scales of the two kernels. Whitened rows of normal data are 2 * rank apart in squared distance,
# so the widest kernel sees all of them and the finest one near neighbors only.
ISOTROPIC = Gaussians(gamma=0.25, count=5)
COMPONENT = Gaussians(gamma=0.5, count=3)
ISOTROPIC_SHARE = 0.5

# Variances of whitened directions below this share of the largest are rounding error.
RIDGE = 1e-12

# All pairs of this many people are looked at; more are dealt into blocks.
LARGEST_BLOCK = 1000

# The even grid of frequencies for single columns: up to 3.5 standard deviations of the finest
# spectrum, and so close that the kernel of two people repeats itself only 20 standard deviations
# apart. Up to 15, its error is below 1e-3.
GRID_REACH, GRID_PERIOD = 3.5, 20.0

# Entries of a block of waves, and of all of them if they are kept from one use to the next.
# On a processor a block must fit into the cache: beyond, computing waves again is faster than
# fetching them.
BLOCK_ENTRIES = {"cpu": 2**16, "cuda": 2**22}
KEPT_ENTRIES = {"cpu": 2**18, "cuda": 2**25}


class Standardized(NamedTuple):
    """Rows without units, and the way back.

    Attributes:
        whitened: Uncorrelated columns of variance 1, shape (..., n, rank).
        columns: Columns of variance 1, shape (..., n, rank).
        spread: Standard deviations of the columns, shape (..., 1, rank).
        scales: Roots of the eigenvalues of the columns' correlations, shape (..., rank).
        vectors: Its eigenvectors, shape (..., rank, rank).
    """

    whitened: Tensor
    columns: Tensor
    spread: Tensor
    scales: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Standardized:
        """Standardize rows, shape (..., n, rank); a constant column becomes zero."""
        rows = rows.double()
        centered = rows - rows.mean(-2, keepdim=True)
        # The scale of the largest entry first: squares must neither overflow nor vanish.
        size = centered.abs().amax(-2, keepdim=True)
        size = torch.where(size > 0, size, torch.ones_like(size))
        relative = (centered / size).square().mean(-2, keepdim=True).sqrt()
        spread = size * torch.where(relative > 0, relative, torch.ones_like(relative))
        columns = centered / spread
        correlations = columns.mT @ columns / rows.shape[-2]
        # A member that has overflowed must turn undefined without failing the whole batch.
        finite = torch.isfinite(correlations).all(-1, keepdim=True).all(-2, keepdim=True)
        values, vectors = torch.linalg.eigh(correlations.where(finite, 0.0))
        values = values.where(finite.squeeze(-1), torch.nan)
        scales = (values.clamp_min(0) + RIDGE).sqrt()
        # The symmetric root: unlike eigenvectors, it does not jump when eigenvalues meet.
        root = (vectors / scales.unsqueeze(-2)) @ vectors.mT
        return cls(columns @ root, columns, spread, scales, vectors)

    @property
    def basis(self) -> Tensor:
        """``B`` with ``A = whitened @ B`` up to a shift, shape (..., rank, rank)."""
        return (self.vectors * self.scales.unsqueeze(-2)) @ self.vectors.mT * self.spread

    def pull_back(self, for_whitened: Tensor, for_columns: Tensor) -> Tensor:
        """Return the gradient in the rows from those in `whitened` and `columns`.

        The derivative of ``C^(-1/2)`` in the eigenvectors of ``C`` is entrywise, with the divided
        differences ``-1 / (s_i s_j (s_i + s_j))`` of ``1 / s``: no difference is ever taken.
        """
        n, vectors = self.columns.shape[-2], self.vectors
        one, two = self.scales.unsqueeze(-1), self.scales.unsqueeze(-2)
        inner = vectors.mT @ (self.columns.mT @ for_whitened) @ vectors
        inner = -(inner + inner.mT) / (n * one * two * (one + two))
        gradient = (for_whitened @ vectors / two + self.columns @ vectors @ inner) @ vectors.mT
        gradient = gradient + for_columns
        along = (self.columns * gradient).mean(-2, keepdim=True)
        gradient = (gradient - self.columns * along) / self.spread
        return gradient - gradient.mean(-2, keepdim=True)


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Sums over pairs of people of a kernel of their rows, within blocks of people.

    One block holds everybody if they are few enough. Otherwise every block has its share of each
    group (`deal`) and the sum is the mean over blocks, which makes it linear in the number of
    people. Nothing can hide between blocks: HSIC is the squared length of a mean, so the whole's
    is at most the mean of the blocks', which adds only what chance leaves in a block.

    Attributes:
        people: Who is in each block; one block is everybody, in order.
        weights: The centered Gram matrix of each block's features, over the block's people squared.
    """

    people: tuple[Tensor, ...]
    weights: tuple[CenteredGram, ...]

    @classmethod
    def of(cls, sensitive: SensitiveFeatures, like: Tensor, largest: int) -> BlockSums:
        """Deal people into blocks of at most `largest`."""
        sample, kernel = sensitive_sample(sensitive)
        # Groups first: numbers hardly ever agree, so they would leave nothing to decide.
        kinds = [column.kind for column in sensitive.columns]
        first = sorted(range(len(kinds)), key=lambda c: kinds[c] != "categorical")
        people = deal(sample[:, first], -(-len(sample) // largest))
        weights = (CenteredGram.of(sample[block].to(like), kernel) for block in people)
        return cls(tuple(block.to(like.device) for block in people), tuple(weights))

    def weighted(self, sample: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return ``sum_ij W_ij k(x_i, x_j)``, (...), and its gradient, (..., n, d)."""
        if len(self.people) == 1:
            return kernel_sum(sample, kernel, self.weights[0])
        value, gradient = sample.new_zeros(sample.shape[:-2]), torch.empty_like(sample)
        for people, weights in zip(self.people, self.weights, strict=True):
            share = len(people) / sample.shape[-2]
            part, pulled = kernel_sum(sample[..., people, :], kernel, weights)
            value += share * part
            gradient[..., people, :] = pulled.mul_(share)
        return value, gradient

    def null(self, sample: Tensor, kernel: Gaussians) -> Tensor:
        """Return the mean of the sum over all permutations within blocks, shape (...)."""
        mean = sample.new_zeros(sample.shape[:-2], dtype=torch.float64)
        for people, weights in zip(self.people, self.weights, strict=True):
            rows = sample[..., people, :]
            total = gram_product(rows, kernel, torch.ones_like(rows[..., :1])).sum((-2, -1))
            share = len(people) / sample.shape[-2]
            mean += share * _mean_over_permutations(total, weights.trace, len(people))
        return mean


def deal(sample: Tensor, hands: int) -> tuple[Tensor, ...]:
    """Return people, the rows of a sample, in as many hands, each with its share of every group.

    People are sorted by their features, the first column first, those with the same features in
    an order drawn once, and dealt one by one.
    """
    if hands == 1:
        return (torch.arange(len(sample)),)
    drawn = torch.randperm(len(sample), generator=torch.Generator().manual_seed(0))
    order = drawn[np.lexsort(sample[drawn].numpy().T[::-1])]
    return tuple(order[hand::hands].sort().values for hand in range(hands))


def _mean_over_permutations(total: Tensor, trace: float, n: int) -> Tensor:
    """Return the mean of ``<HKH, L>`` over all orders of the n rows of ``L``, which is centered.

    It is ``trace(HKH) trace(L) / (n - 1)``, so nothing has to be drawn.

    Args:
        total: The sum of all entries of ``K``, whose diagonal is one.
        trace: ``trace(L)``.
        n: The number of rows.
    """
    return (n - total.double() / n) * trace / (n - 1)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over all pairs of a kernel of single columns, through waves: linear in the people.

    ``k(x, y)`` is ``sum_f w_f cos(omega_f (x - y))``, with frequencies on a grid, but for a small
    error; again a kernel.

    Attributes:
        thin: ``U`` with ``W = U U.T``, shape (n, r).
    """

    thin: Tensor

    def weighted(self, columns: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return ``sum_ij W_ij k(x_i, x_j)``, (...), and its gradient; columns are (..., n, 1)."""
        frequencies, weights = (part.to(columns) for part in _spectrum(kernel))
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        cosines, sines = self._images(columns, frequencies, kept)
        value = (weights * (cosines.square() + sines.square())).sum((-2, -1))
        gradient = torch.empty_like(columns)
        slopes = 2 * weights * frequencies
        for_cosine, for_sine = (slopes * sines).mT, (slopes * cosines).mT
        for people in self._blocks(columns, len(weights)):
            cosine, sine = kept.get(people.start) or _waves(columns[..., people, :], frequencies)
            pulled = cosine @ for_cosine - sine @ for_sine
            gradient[..., people, :] = (pulled * self.thin[people]).sum(-1, keepdim=True)
        return value, gradient

    def null(self, columns: Tensor, kernel: Gaussians) -> Tensor:
        """Return the mean of the sum over all permutations of the people, shape (...)."""
        total = ColumnSums(torch.ones_like(self.thin[:, :1])).each(columns, kernel).sum(-1)
        return _mean_over_permutations(total, float(self.thin.square().sum()), len(self.thin))

    def each(self, columns: Tensor, kernel: Gaussians) -> Tensor:
        """Return ``u.T K u`` for every column ``u`` of `thin`, shape (..., r)."""
        frequencies, weights = (part.to(columns) for part in _spectrum(kernel))
        cosines, sines = self._images(columns, frequencies, None)
        return (cosines.square() + sines.square()) @ weights

    def _images(
        self,
        columns: Tensor,
        frequencies: Tensor,
        kept: dict[int, tuple[Tensor, Tensor]] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the columns of `thin` times all waves, two of shape (..., r, f).

        If there are few enough, the waves are put into `kept`, by the first person of the block.
        """
        width = len(frequencies)
        if columns.numel() * width > _by_device(KEPT_ENTRIES, columns):
            kept = None
        cosines = columns.new_zeros(*columns.shape[:-2], self.thin.shape[1], width)
        sines = torch.zeros_like(cosines)
        for people in self._blocks(columns, width):
            pair = _waves(columns[..., people, :], frequencies)
            if kept is not None:
                kept[people.start] = pair
            cosines += self.thin[people].mT @ pair[0]
            sines += self.thin[people].mT @ pair[1]
        return cosines, sines

    def _blocks(self, columns: Tensor, width: int) -> Iterator[slice]:
        n, members = columns.shape[-2], max(1, columns.shape[:-2].numel())
        size = max(1, _by_device(BLOCK_ENTRIES, columns) // (width * members))
        return (slice(start, min(start + size, n)) for start in range(0, n, size))


@dataclass(frozen=True, eq=False)
class Criterion:
    """Dependence between rows and sensitive features: 0 none, 1 as much as the features themselves.

    HSIC over the HSIC of an embedding that *is* the sensitive features. One half of it looks at
    whitened rows; one quarter at standardized columns one by one, the components; one quarter at
    whitened columns one by one.

    Attributes:
        sensitive: The features.
        like: A tensor with the precision and device to compute with.
        block: Most people of whom all pairs of rows are looked at; more are dealt into blocks.
    """

    sensitive: SensitiveFeatures
    like: Tensor
    block: int = LARGEST_BLOCK

    @cached_property
    def row_sums(self) -> BlockSums:
        """The sums over pairs of whitened rows."""
        return BlockSums.of(self.sensitive, self.like, self.block)

    @cached_property
    def column_sums(self) -> ColumnSums:
        """The sums over pairs of single columns."""
        return ColumnSums(self.thin.to(self.like))

    @cached_property
    def thin(self) -> Tensor:
        """``U`` with ``U U.T`` the centered Gram matrix of the features over ``n**2``."""
        sample, kernel = sensitive_sample(self.sensitive)
        factor = thin_factor(sample, kernel, most=MOST_THIN_RANK)
        return (factor - factor.mean(0)) / len(factor)

    @cached_property
    def _references(self) -> dict[int, float]:
        return {}

    def reference(self, rank: int) -> float:
        """Return HSIC of the features as an embedding, seen by the kernels for this rank."""
        if rank not in self._references:
            rows = Standardized.of(self.sensitive.encode(like=self.like))
            self._references[rank] = float(self._pairs(rows, rank)[0])
        return self._references[rank]

    def value_and_gradient(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the criterion of each member, shape (...), and its gradient in the rows."""
        standardized = Standardized.of(rows)
        total, for_whitened, for_columns = self._pairs(standardized, rows.shape[-1])
        gradient = standardized.pull_back(for_whitened.double(), for_columns.double())
        reference = self.reference(rows.shape[-1])
        return (total / reference).to(rows.dtype), (gradient / reference).to(rows.dtype)

    def null(self, rows: Tensor) -> Tensor:
        """Return the mean of the criterion over all permutations of the people, shape (...).

        If people are in blocks: of those within blocks, for the part that looks at rows.
        """
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whole = self.row_sums.null(standardized.whitened.to(self.like), isotropic_kernel(rank))
        single = self.column_sums.null(single_columns(standardized).to(self.like), COMPONENT)
        mean = ISOTROPIC_SHARE * whole + (1 - ISOTROPIC_SHARE) * single.mean(-1)
        return mean / self.reference(rank)

    def test(
        self, rows: Tensor, *, permutations: int, random_state: int | np.random.RandomState | None
    ) -> PermutationTest:
        """Test independence of rows, shape (n, rank), by permuting the people's features."""
        random = check_random_state(random_state)
        orders = [torch.arange(len(rows))]
        orders += [torch.from_numpy(random.permutation(len(rows))) for _ in range(permutations)]
        thin = self.thin.to(self.like)
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whitened, columns = standardized.whitened.to(thin), single_columns(standardized).to(thin)
        totals = torch.zeros(len(orders), dtype=torch.float64)
        at_once = max(1, 2**23 // thin.numel())
        for begin in range(0, len(orders), at_once):
            shuffled = torch.stack([thin[order] for order in orders[begin : begin + at_once]], 1)
            image = gram_product(whitened, isotropic_kernel(rank), shuffled.flatten(1))
            whole = (image.reshape(shuffled.shape) * shuffled).sum((0, 2))
            single = ColumnSums(shuffled.flatten(1)).each(columns, COMPONENT).mean(0)
            single = single.reshape(shuffled.shape[1:]).sum(1)
            mean = ISOTROPIC_SHARE * whole + (1 - ISOTROPIC_SHARE) * single
            totals[begin : begin + at_once] = mean.double().cpu()
        values = totals / self.reference(rank)
        # Rounding must not decide ties, such as a permutation that changes nothing.
        as_large = values[1:] >= values[0] * (1 - torch.finfo(thin.dtype).eps ** 0.5)
        p_value = (1 + int(as_large.sum())) / len(orders)
        return PermutationTest(float(values[0]), p_value, float(values[1:].mean()), permutations)

    def _pairs(self, rows: Standardized, rank: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return HSIC and its gradients in the whitened rows and in the columns."""
        whole, for_whitened = self.row_sums.weighted(
            rows.whitened.to(self.like.dtype), isotropic_kernel(rank)
        )
        columns = single_columns(rows).to(self.like.dtype)
        single, gradient = self.column_sums.weighted(columns, COMPONENT)
        share = (1 - ISOTROPIC_SHARE) / columns.shape[-3]
        total = ISOTROPIC_SHARE * whole + share * single.sum(-1)
        for_columns, through_whitened = (share * gradient.squeeze(-1).mT).chunk(2, -1)
        return total, ISOTROPIC_SHARE * for_whitened + through_whitened, for_columns


@dataclass(frozen=True)
class Features(Kernel):
    """The kernel of sensitive features: one factor for each column.

    Several columns are joined by ``prod(1 + k_c)``: the sum over all sets of columns of their
    product kernels, so that each column counts by itself and so does every combination.

    Attributes:
        kernels: One for each column.
    """

    kernels: tuple[Kernel, ...]

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the Gram matrix, shape (..., n, m)."""
        columns = range(len(self.kernels))
        grams = [self.kernels[c](first[..., c : c + 1], second[..., c : c + 1]) for c in columns]
        if len(grams) == 1:
            return grams[0]
        product = 1 + grams[0]
        for gram in grams[1:]:
            product = product * (1 + gram)
        return product


def sensitive_sample(sensitive: SensitiveFeatures) -> tuple[Tensor, Features]:
    """Return features as numbers, shape (n, columns), with the kernel that reads them.

    Categories are codes under the delta kernel, numbers are standardized under a Gaussian one.
    """
    columns = sensitive.columns
    values = [c.values if c.kind == "categorical" else c.encode()[:, 0] for c in columns]
    kernels = tuple(Delta() if c.kind == "categorical" else Gaussian(0.5) for c in columns)
    return torch.from_numpy(np.column_stack(values).astype(np.float64)), Features(kernels)


def isotropic_kernel(rank: int) -> Gaussians:
    """Return the kernel of whitened rows, whose distances grow with the rank."""
    return Gaussians(ISOTROPIC.gamma / (2 * rank), ISOTROPIC.count)


def single_columns(rows: Standardized) -> Tensor:
    """Return components, then whitened columns, shape (..., 2 rank, n, 1)."""
    return torch.cat([rows.columns, rows.whitened], -1).mT.unsqueeze(-1)


def _by_device(sizes: dict[str, int], sample: Tensor) -> int:
    return sizes.get(sample.device.type, sizes["cpu"])


@lru_cache
def _spectrum(kernel: Gaussians) -> tuple[Tensor, Tensor]:
    """Return frequencies (f,) and weights (f,) for a kernel of one column: the trapezoidal rule.

    A Gaussian kernel is the mean of ``cos(omega d)`` over a normal frequency of variance
    ``2 gamma``; the rule is exact but for the ends and for repeating itself after the period.
    """
    widest = (2 * kernel.parts[-1][0]) ** 0.5
    step = 2 * math.pi / GRID_PERIOD
    grid = step * torch.arange(math.ceil(GRID_REACH * widest / step), dtype=torch.float64)
    density = torch.zeros_like(grid)
    for gamma, weight in kernel.parts:
        density += weight * torch.exp(-grid.square() / (4 * gamma)) / gamma**0.5
    density[0] /= 2  # the others stand for their negatives too
    return grid, density / density.sum()


def _waves(columns: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of columns (..., n, 1), two of shape (..., n, f)."""
    phase = columns * frequencies
    return phase.cos(), phase.sin()
