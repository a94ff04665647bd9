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
from typing import NamedTuple, Protocol

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

# Up to this many people, all pairs are looked at; beyond, random features make it linear.
EXACT_PEOPLE = {"cpu": 1000, "cuda": 20_000}

# Frequencies for each scale of the isotropic kernel, and the even grid for single columns: up to
# 3.5 standard deviations of the finest spectrum, and so close that the kernel of two people
# repeats itself only 20 standard deviations apart. Up to 15, its error is below 1e-3.
ISOTROPIC_FREQUENCIES = 64
GRID_REACH, GRID_PERIOD = 3.5, 20.0

# Entries of a block of features, and of all of them if they are kept from one use to the next.
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


class PairSums(Protocol):
    """Sums over pairs of people of a kernel of their rows."""

    def weighted(self, sample: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return ``sum_ij W_ij k(x_i, x_j)``, (...), and its gradient, (..., n, d)."""

    def total(self, sample: Tensor, kernel: Gaussians) -> Tensor:
        """Return ``sum_ij k(x_i, x_j)``, shape (...)."""


@dataclass(frozen=True, eq=False)
class ExactSums:
    """All pairs, tile by tile."""

    weights: CenteredGram

    def weighted(self, sample: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return the sum and its gradient."""
        return kernel_sum(sample, kernel, self.weights)

    def total(self, sample: Tensor, kernel: Gaussians) -> Tensor:
        """Return the plain sum."""
        return gram_product(sample, kernel, torch.ones_like(sample[..., :1])).sum((-2, -1))


@dataclass(frozen=True, eq=False)
class FourierSums:
    """Pairs through Fourier features: linear in the number of people.

    ``k(x, y)`` is replaced by ``sum_f w_f cos(omega_f . (x - y))``: again a kernel. For single
    columns the frequencies are a grid, and the kernel is the Gaussian one but for a small error;
    for rows they are drawn once, orthogonal in blocks, and it is Gaussian on average over draws.

    Attributes:
        thin: ``U`` with ``W = U U.T``, shape (n, r).
    """

    thin: Tensor

    def weighted(self, sample: Tensor, kernel: Gaussians) -> tuple[Tensor, Tensor]:
        """Return the sum and its gradient."""
        frequencies, weights = spectrum_of(kernel, sample)
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        cosines, sines = self._images(sample, frequencies, kept)
        value = (weights * (cosines.square() + sines.square())).sum((-2, -1))
        gradient = torch.empty_like(sample)
        frequencies, weights, d = frequencies.mT, 2 * weights, sample.shape[-1]
        for rows in self._blocks(sample, len(weights)):
            cosine, sine = kept.get(rows.start) or waves(sample[..., rows, :], frequencies.mT)
            thin = self.thin[rows]
            # The same product in two orders: the first saves passes over the waves.
            if 1 in (thin.shape[1], d):
                # One of the two has a single column, so their product is a broadcast.
                pulled = cosine @ ((weights * sines).mT * frequencies)
                pulled -= sine @ ((weights * cosines).mT * frequencies)
                pulled = pulled * thin
                gradient[..., rows, :] = pulled.sum(-1, keepdim=True) if d == 1 else pulled
            else:
                pulled = cosine * (thin @ sines) - sine * (thin @ cosines)
                gradient[..., rows, :] = (pulled * weights) @ frequencies
        return value, gradient

    def total(self, sample: Tensor, kernel: Gaussians) -> Tensor:
        """Return the plain sum."""
        return FourierSums(torch.ones_like(self.thin[:, :1])).by_column(sample, kernel).sum(-1)

    def by_column(self, sample: Tensor, kernel: Gaussians) -> Tensor:
        """Return ``u.T K u`` for every column ``u`` of `thin`, shape (..., r)."""
        frequencies, weights = spectrum_of(kernel, sample)
        cosines, sines = self._images(sample, frequencies, None)
        return (cosines.square() + sines.square()) @ weights

    def _images(
        self,
        sample: Tensor,
        frequencies: Tensor,
        kept: dict[int, tuple[Tensor, Tensor]] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the columns of `thin` times all waves, two of shape (..., r, f).

        If there are few enough, the waves are put into `kept`, by first row of the block.
        """
        width = frequencies.shape[1]
        if sample[..., 0].numel() * width > _by_device(KEPT_ENTRIES, sample):
            kept = None
        cosines = sample.new_zeros(*sample.shape[:-2], self.thin.shape[1], width)
        sines = torch.zeros_like(cosines)
        for rows in self._blocks(sample, width):
            pair = waves(sample[..., rows, :], frequencies)
            if kept is not None:
                kept[rows.start] = pair
            cosines += self.thin[rows].mT @ pair[0]
            sines += self.thin[rows].mT @ pair[1]
        return cosines, sines

    def _blocks(self, sample: Tensor, width: int) -> Iterator[slice]:
        n, members = sample.shape[-2], max(1, sample.shape[:-2].numel())
        size = max(1, _by_device(BLOCK_ENTRIES, sample) // (width * members))
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
        exact: Whether to look at all pairs of rows; None: if there are few enough people.
    """

    sensitive: SensitiveFeatures
    like: Tensor
    exact: bool | None = None

    @cached_property
    def sums(self) -> PairSums:
        """The sums over pairs, weighted by the centered Gram matrix of the features."""
        exact = self.exact
        if exact is None:
            exact = len(self.sensitive) <= _by_device(EXACT_PEOPLE, self.like)
        if exact:
            sample, kernel = sensitive_sample(self.sensitive)
            return ExactSums(CenteredGram.of(sample.to(self.like), kernel))
        return self.column_sums

    @cached_property
    def column_sums(self) -> FourierSums:
        """The same for single columns, where a grid of frequencies is as good and faster."""
        return FourierSums(self.thin.to(self.like))

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

        Over all ways to give the features to other people, ``<HKH, HLH>`` has the mean
        ``trace(HKH) trace(HLH) / (n - 1)``, so nothing has to be drawn.
        """
        standardized, (n, rank) = Standardized.of(rows), rows.shape[-2:]
        whole = self.sums.total(standardized.whitened.to(self.like), isotropic_kernel(rank))
        single = self.column_sums.total(column_samples(standardized).to(self.like), COMPONENT)
        mean = ISOTROPIC_SHARE * whole + (1 - ISOTROPIC_SHARE) * single.mean(-1)
        trace = (n - mean.double() / n) * float(self.thin.square().sum())
        return trace / (n - 1) / self.reference(rank)

    def test(
        self, rows: Tensor, *, permutations: int, random_state: int | np.random.RandomState | None
    ) -> PermutationTest:
        """Test independence of rows, shape (n, rank), by permuting the people's features."""
        random = check_random_state(random_state)
        orders = [torch.arange(len(rows))]
        orders += [torch.from_numpy(random.permutation(len(rows))) for _ in range(permutations)]
        thin = self.thin.to(self.like)
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whitened, columns = standardized.whitened.to(thin), column_samples(standardized).to(thin)
        totals = torch.zeros(len(orders), dtype=torch.float64)
        at_once = max(1, 2**23 // thin.numel())
        for begin in range(0, len(orders), at_once):
            shuffled = torch.stack([thin[order] for order in orders[begin : begin + at_once]], 1)
            image = gram_product(whitened, isotropic_kernel(rank), shuffled.flatten(1))
            whole = (image.reshape(shuffled.shape) * shuffled).sum((0, 2))
            single = FourierSums(shuffled.flatten(1)).by_column(columns, COMPONENT).mean(0)
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
        whole, for_whitened = self.sums.weighted(
            rows.whitened.to(self.like.dtype), isotropic_kernel(rank)
        )
        columns = column_samples(rows).to(self.like.dtype)
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


def column_samples(rows: Standardized) -> Tensor:
    """Return components, then whitened columns, as a batch of samples, (..., 2 rank, n, 1)."""
    return torch.cat([rows.columns, rows.whitened], -1).mT.unsqueeze(-1)


def _by_device(sizes: dict[str, int], sample: Tensor) -> int:
    return sizes.get(sample.device.type, sizes["cpu"])


def spectrum_of(kernel: Gaussians, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return frequencies (d, f) and their weights (f,) for samples (..., n, d)."""
    frequencies, weights = _frequencies(kernel, sample.shape[-1])
    return frequencies.to(sample), weights.to(sample)


def waves(sample: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of a sample, two of shape (..., n, f)."""
    phase = sample @ frequencies
    return phase.cos(), phase.sin()


@lru_cache
def _frequencies(kernel: Gaussians, dimensions: int) -> tuple[Tensor, Tensor]:
    """Return frequencies (d, f) and weights (f,) of the Fourier features of a kernel."""
    if dimensions == 1:
        return _grid(kernel)
    generator = torch.Generator().manual_seed(0)
    count, frequencies, weights = ISOTROPIC_FREQUENCIES, [], []
    for gamma, weight in kernel.parts:
        standard = _orthogonal_normals(dimensions, count, generator)
        frequencies.append(standard * (2 * gamma) ** 0.5)
        weights.append(torch.full((count,), weight / count, dtype=torch.float64))
    return torch.cat(frequencies, 1), torch.cat(weights)


def _grid(kernel: Gaussians) -> tuple[Tensor, Tensor]:
    """Return the trapezoidal rule for the spectrum of a kernel of one column.

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
    return grid.unsqueeze(0), density / density.sum()


def _orthogonal_normals(dimensions: int, count: int, generator: torch.Generator) -> Tensor:
    """Return columns with normal entries, orthogonal in blocks: better than independent ones."""
    blocks = []
    for _ in range(-(-count // dimensions)):
        normal = torch.randn(dimensions, dimensions, generator=generator, dtype=torch.float64)
        other = torch.randn(dimensions, dimensions, generator=generator, dtype=torch.float64)
        blocks.append(torch.linalg.qr(normal)[0] * other.norm(dim=0))
    return torch.cat(blocks, 1)[:, :count]
