"""Sums over pairs of people, weighted by how much alike their sensitive features are.

Of whole rows within blocks of people, of single columns through waves: both linear in the number of
people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.hsic import CenteredGram, gram_product, kernel_sum
from parafair.dependence.kernels import Delta, Gaussian, Kernel, MultiscaleGaussian

# All pairs of about this many people are looked at; more are dealt into blocks. Blocks grow, up to
# so many times, if they would have fewer of a group than this.
CHUNK_PEOPLE, MOST_GROWTH, FEWEST_OF_A_GROUP = 1000, 20, 20

# The even grid of frequencies for single columns: up to 3.5 standard deviations of the finest
# spectrum, and so close that the kernel of two people repeats itself only 20 standard deviations
# apart. Up to 15, its error is below 1e-3.
GRID_REACH, GRID_PERIOD = 3.5, 20.0

# Waves computed at once, and the most that are kept from one use to the next. On a processor they
# must fit into the cache: beyond, computing waves again is faster than fetching them.
WAVE_ENTRIES = {"cpu": 2**16, "cuda": 2**22}
KEPT_WAVES = {"cpu": 2**18, "cuda": 2**25}


@dataclass(frozen=True)
class SensitiveKernel(Kernel):
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


def sensitive_sample(sensitive: SensitiveFeatures) -> tuple[Tensor, SensitiveKernel]:
    """Return features as numbers, shape (n, columns), with the kernel that reads them.

    Categories are codes under the delta kernel, numbers are standardized under a Gaussian one.
    """
    columns = sensitive.columns
    values = [c.values if c.kind == "categorical" else c.encode()[:, 0] for c in columns]
    kernels = tuple(Delta() if c.kind == "categorical" else Gaussian(0.5) for c in columns)
    return torch.from_numpy(np.column_stack(values).astype(np.float64)), SensitiveKernel(kernels)


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """Sums over pairs of people of a kernel of their rows, within blocks of people.

    One block holds everybody if they are few enough. Otherwise every block has its share of each
    group (`deal`) and the sum is the mean over blocks, which makes it linear in the number of
    people. Nothing can hide between blocks: HSIC is the squared length of a mean over people,
    features centered over everybody, so the whole's is at most the mean of the blocks'; and the
    blocks' has more only by what chance leaves in a block.

    Attributes:
        people: Who is in each block; one block is everybody, in order.
        weights: The part of the features' centered Gram matrix that belongs to each block, over the
            block's people squared.
    """

    people: tuple[Tensor, ...]
    weights: tuple[CenteredGram, ...]

    @classmethod
    def of(cls, sensitive: SensitiveFeatures, like: Tensor, block: int) -> ChunkSums:
        """Deal people into blocks of about this size, larger ones if a group is rare."""
        sample, kernel = sensitive_sample(sensitive)
        whole = CenteredGram.of(sample.to(like), kernel)
        people = stratify(sensitive, chunk_count(sensitive, block))
        people = tuple(part.to(like.device) for part in people)
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
        """Return the mean of the sum over all permutations within blocks, shape (...)."""
        mean = sample.new_zeros(sample.shape[:-2], dtype=torch.float64)
        for people, weights in zip(self.people, self.weights, strict=True):
            rows = sample[..., people, :]
            total = gram_product(rows, kernel, torch.ones_like(rows[..., :1])).sum((-2, -1))
            share = len(people) / sample.shape[-2]
            mean += share * _mean_over_permutations(
                total, len(people), trace=weights.trace, grand=weights.grand
            )
        return mean


def chunk_count(sensitive: SensitiveFeatures, block: int) -> int:
    """Return into how many blocks of about this size people are dealt.

    A handful of people cannot be like everybody else: their best places would be at the center of
    the others, and show who they are. So blocks grow if they have too few of some group, up to a
    size beyond which they would be too slow.
    """
    n = len(sensitive)
    wanted, fewest = round(n / block), round(n / (MOST_GROWTH * block))
    rarest = min(
        (
            int(np.unique(column.values, return_counts=True)[1].min())
            for column in sensitive.columns
            if column.kind == "categorical"
        ),
        default=n,
    )
    return max(1, fewest, min(wanted, rarest // FEWEST_OF_A_GROUP))


def stratify(sensitive: SensitiveFeatures, hands: int) -> tuple[Tensor, ...]:
    """Return the positions of people in as many hands, each with its share of every group.

    People are sorted by their features, those with the same features in an order drawn once, and
    dealt one by one. Groups decide first: numbers hardly ever agree, and leave nothing to decide.
    """
    n = len(sensitive)
    if hands == 1:
        return (torch.arange(n),)
    columns = sorted(sensitive.columns, key=lambda column: column.kind != "categorical")
    drawn = np.random.default_rng(0).permutation(n)
    # lexsort goes by its last key first.
    order = drawn[np.lexsort([column.values[drawn] for column in reversed(columns)])]
    return tuple(torch.from_numpy(np.sort(order[hand::hands])) for hand in range(hands))


def _mean_over_permutations(total: Tensor, n: int, *, trace: float, grand: float) -> Tensor:
    """Return the mean of ``<K, L>`` over all orders of the n rows of ``L``.

    The diagonal of ``K`` is one, and every other entry meets every other entry of ``L`` as often.

    Args:
        total: The sum of all entries of ``K``.
        n: The number of rows.
        trace: ``trace(L)``.
        grand: The sum of all entries of ``L``; 0 if it is centered.
    """
    return trace + (grand - trace) * (total.double() - n) / (n * (n - 1))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over all pairs of a kernel of single columns, through waves: linear in the people.

    ``k(x, y)`` is ``sum_f w_f cos(omega_f (x - y))``, with frequencies on a grid, but for a small
    error; again a kernel.

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

        If there are few enough, the waves are put into `kept`, by the first person of the chunk.
        """
        width = len(frequencies)
        if columns.numel() * width > _by_device(KEPT_WAVES, columns):
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
        size = max(1, _by_device(WAVE_ENTRIES, columns) // (width * members))
        return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _by_device(sizes: dict[str, int], sample: Tensor) -> int:
    return sizes.get(sample.device.type, sizes["cpu"])


@lru_cache
def _spectrum(kernel: MultiscaleGaussian) -> tuple[Tensor, Tensor]:
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
