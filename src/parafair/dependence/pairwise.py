"""Sums over pairs of people, weighted by the similarity of their sensitive features.

Whole rows are compared within chunks of people, single columns through cosines on a grid of
frequencies. The cost of both is linear in the number of people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.devices import by_device
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.gram import CenteredGram, gram_product, kernel_sum
from parafair.dependence.kernels import Delta, Gaussian, Kernel, MultiscaleGaussian

# Default number of people in a chunk, within which all pairs are compared. Chunks grow, up to
# MOST_GROWTH times, if they have fewer members of a group than FEWEST_OF_A_GROUP.
CHUNK_PEOPLE, MOST_GROWTH, FEWEST_OF_A_GROUP = 1000, 20, 20

# The even grid of frequencies for single columns. It covers 3.5 standard deviations of the widest
# spectrum, and its step makes the kernel repeat itself after 20 standard deviations of a column.
# Up to a distance of 15, the error is below 1e-3.
GRID_REACH, GRID_PERIOD = 3.5, 20.0

# Waves computed at once, and the largest number stored for reuse. On a CPU they must fit into the
# cache; computing more of them again is faster than reading them from memory.
WAVE_ENTRIES = {"cpu": 2**16, "cuda": 2**22}
KEPT_WAVES = {"cpu": 2**18, "cuda": 2**25}


@dataclass(frozen=True)
class SensitiveKernel(Kernel):
    """The kernel of sensitive features: one factor for each column.

    Several columns are joined by ``prod(1 + k_c)``, the sum of the product kernels of all sets of
    columns. So each single column counts, and every combination counts.

    Attributes:
        kernels: One kernel for each column.
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


def sensitive_sample(sensitive: SensitiveFeatures) -> tuple[Tensor, SensitiveKernel]:
    """Return features as numbers, shape (n, columns), with the kernel for them.

    Categories are codes with the delta kernel; numbers are standardized, with a Gaussian kernel.
    """
    columns = sensitive.columns
    values = [c.values if c.kind == "categorical" else c.encode()[:, 0] for c in columns]
    kernels = tuple(Delta() if c.kind == "categorical" else Gaussian(0.5) for c in columns)
    return torch.from_numpy(np.column_stack(values).astype(np.float64)), SensitiveKernel(kernels)


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """Sums over pairs of people of a kernel of their rows, within chunks of people.

    A small population is a single chunk. Otherwise every chunk has its share of each group
    (`stratify`) and the result is the mean over chunks, whose cost is linear in the number of
    people. Dependence cannot hide between chunks: HSIC is the squared length of a mean over
    people, with features centered over all people, so HSIC of all people is at most the mean over
    chunks. The mean over chunks is larger only by the chance differences within a chunk.

    Attributes:
        people: Positions of the people in each chunk; a single chunk has all of them, in order.
        weights: For each chunk its part of the features' centered Gram matrix, divided by the
            square of its number of people.
    """

    people: tuple[Tensor, ...]
    weights: tuple[CenteredGram, ...]

    @classmethod
    def of(cls, sensitive: SensitiveFeatures, prototype: Tensor, chunk_size: int) -> ChunkSums:
        """Split people into chunks of about this size, or larger if a group is rare.

        Args:
            sensitive: The features.
            prototype: A tensor with the dtype and device to use.
            chunk_size: Number of people in a chunk.
        """
        sample, kernel = sensitive_sample(sensitive)
        whole = CenteredGram.of(sample.to(prototype), kernel)
        people = stratify(sensitive, chunk_count(sensitive, chunk_size))
        people = tuple(part.to(prototype.device) for part in people)
        return cls(people, (whole,) if len(people) == 1 else tuple(map(whole.take, people)))

    def weighted(self, sample: Tensor, kernel: MultiscaleGaussian) -> tuple[Tensor, Tensor]:
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

    def null(self, sample: Tensor, kernel: MultiscaleGaussian) -> Tensor:
        """Return the mean of the sum over all permutations within chunks, shape (...)."""
        mean = sample.new_zeros(sample.shape[:-2], dtype=torch.float64)
        for people, weights in zip(self.people, self.weights, strict=True):
            rows = sample[..., people, :]
            total = gram_product(rows, kernel, torch.ones_like(rows[..., :1])).sum((-2, -1))
            share = len(people) / sample.shape[-2]
            mean += share * _mean_over_permutations(
                total, len(people), trace=weights.trace, grand=weights.grand
            )
        return mean


def chunk_count(sensitive: SensitiveFeatures, chunk_size: int) -> int:
    """Return the number of chunks of about this size.

    A handful of people cannot be distributed like everybody else. Their best places would be at
    the center of the others, which reveals them. So chunks grow if they have too few members of
    some group, up to a limit that keeps them fast.
    """
    n = len(sensitive)
    wanted, fewest = round(n / chunk_size), round(n / (MOST_GROWTH * chunk_size))
    rarest = min(
        (
            int(np.unique(column.values, return_counts=True)[1].min())
            for column in sensitive.columns
            if column.kind == "categorical"
        ),
        default=n,
    )
    return max(1, fewest, min(wanted, rarest // FEWEST_OF_A_GROUP))


def stratify(sensitive: SensitiveFeatures, chunks: int) -> tuple[Tensor, ...]:
    """Return the positions of the people in each chunk, which has its share of every group.

    People are sorted by categories, then by numbers, with ties in a fixed random order, and
    assigned to the chunks in turn.
    """
    n = len(sensitive)
    if chunks == 1:
        return (torch.arange(n, device="cpu"),)
    columns = sorted(sensitive.columns, key=lambda column: column.kind != "categorical")
    drawn = np.random.default_rng(0).permutation(n)
    # The last key of lexsort is the primary one.
    order = drawn[np.lexsort([column.values[drawn] for column in reversed(columns)])]
    return tuple(torch.from_numpy(np.sort(order[chunk::chunks])) for chunk in range(chunks))


def _mean_over_permutations(total: Tensor, n: int, *, trace: float, grand: float) -> Tensor:
    """Return the mean of ``<K, L>`` over all orders of the n rows of ``L``.

    The diagonal of ``K`` is one. Over all orders, every other entry of ``K`` meets every
    off-diagonal entry of ``L`` equally often.

    Args:
        total: The sum of all entries of ``K``.
        n: The number of rows.
        trace: ``trace(L)``.
        grand: The sum of all entries of ``L``; 0 if it is centered.
    """
    return trace + (grand - trace) * (total.double() - n) / (n * (n - 1))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over all pairs of a kernel of single columns, at a cost linear in the people.

    ``k(x, y)`` is approximated by ``sum_f w_f cos(omega_f (x - y))`` with frequencies on a grid,
    which is a kernel itself.

    Attributes:
        low_rank: ``U`` with ``W = U U.T``, shape (n, r).
    """

    low_rank: Tensor

    def weighted(self, columns: Tensor, kernel: MultiscaleGaussian) -> tuple[Tensor, Tensor]:
        """Return ``sum_ij W_ij k(x_i, x_j)``, (...), and its gradient; columns are (..., n, 1)."""
        frequencies, weights = (part.to(columns) for part in _spectrum(kernel))
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        cosines, sines = self._images(columns, frequencies, kept)
        value = (weights * (cosines.square() + sines.square())).sum((-2, -1))
        gradient = torch.empty_like(columns)
        slopes = 2 * weights * frequencies
        for_cosine, for_sine = (slopes * sines).mT, (slopes * cosines).mT
        for people in self._chunks(columns, len(weights)):
            cosine, sine = kept.get(people.start) or _waves(columns[..., people, :], frequencies)
            pulled = cosine @ for_cosine - sine @ for_sine
            gradient[..., people, :] = (pulled * self.low_rank[people]).sum(-1, keepdim=True)
        return value, gradient

    def null(self, columns: Tensor, kernel: MultiscaleGaussian) -> Tensor:
        """Return the mean of the sum over all permutations of the people, shape (...)."""
        total = ColumnSums(torch.ones_like(self.low_rank[:, :1])).each(columns, kernel).sum(-1)
        trace = float(self.low_rank.square().sum())
        return _mean_over_permutations(total, len(self.low_rank), trace=trace, grand=0.0)

    def each(self, columns: Tensor, kernel: MultiscaleGaussian) -> Tensor:
        """Return ``u.T K u`` for every column ``u`` of `low_rank`, shape (..., r)."""
        frequencies, weights = (part.to(columns) for part in _spectrum(kernel))
        cosines, sines = self._images(columns, frequencies, None)
        return (cosines.square() + sines.square()) @ weights

    def _images(
        self,
        columns: Tensor,
        frequencies: Tensor,
        kept: dict[int, tuple[Tensor, Tensor]] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the columns of `low_rank` times all waves, two of shape (..., r, f).

        If there are few enough, the waves are stored in `kept`, by the first person of the chunk.
        """
        width = len(frequencies)
        if columns.numel() * width > by_device(KEPT_WAVES, columns):
            kept = None
        cosines = columns.new_zeros(*columns.shape[:-2], self.low_rank.shape[1], width)
        sines = torch.zeros_like(cosines)
        for people in self._chunks(columns, width):
            pair = _waves(columns[..., people, :], frequencies)
            if kept is not None:
                kept[people.start] = pair
            cosines += self.low_rank[people].mT @ pair[0]
            sines += self.low_rank[people].mT @ pair[1]
        return cosines, sines

    def _chunks(self, columns: Tensor, width: int) -> Iterator[slice]:
        n, members = columns.shape[-2], max(1, columns.shape[:-2].numel())
        size = max(1, by_device(WAVE_ENTRIES, columns) // (width * members))
        return (slice(start, min(start + size, n)) for start in range(0, n, size))


@lru_cache
def _spectrum(kernel: MultiscaleGaussian) -> tuple[Tensor, Tensor]:
    """Return frequencies (f,) and weights (f,) for a kernel of one column: the trapezoidal rule.

    A Gaussian kernel is the mean of ``cos(omega d)`` over a normal frequency of variance
    ``2 gamma``. The rule is exact except that it truncates the tails and is periodic.
    """
    widest = (2 * kernel.parts[-1][0]) ** 0.5
    step = 2 * math.pi / GRID_PERIOD
    points = math.ceil(GRID_REACH * widest / step)
    grid = step * torch.arange(points, dtype=torch.float64, device="cpu")
    density = torch.zeros_like(grid)
    for gamma, weight in kernel.parts:
        density += weight * torch.exp(-grid.square() / (4 * gamma)) / gamma**0.5
    density[0] /= 2  # all others also stand for their negatives
    return grid, density / density.sum()


def _waves(columns: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of columns (..., n, 1), two of shape (..., n, f)."""
    phase = columns * frequencies
    return phase.cos(), phase.sin()
