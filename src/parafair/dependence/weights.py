"""The sensitive side of the criterion: weights of pairs of people, as a few columns.

A statistic of the criterion is ``sum over i != j of w_ij k(x_i, x_j)``. The weights of a feature
are its centered Gram matrix, minus the mean of its off-diagonal entries. So the mean of the
statistic over all permutations of the people is exactly zero, for every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.gram import MOST_LOW_RANK, low_rank_factor
from parafair.dependence.kernels import Delta, Gaussian, Kernel
from parafair.dependence.scales import Level

# Directions of a feature whose spread is below this share of the largest are left out. They weigh
# less than a ten-thousandth in the Gram matrix.
ACCURACY = 1e-2

# Up to this many distinct values, or combinations of them, the Gram matrix is factored exactly. If
# there are more, they are numbers, whose Gram matrix has a low rank.
MOST_DISTINCT = 1000

# People with equal features are summed up together if there are at most this many combinations of
# values, with at least this many people each on average.
MOST_ALIKE, LEAST_ALIKE = 16, 32

# The smallest mean similarity: that of a kernel which sees no pair at all in the reference sample.
LEAST_MEAN = 1e-12


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of pairs of people within chunks, for each feature.

    In a chunk, ``w_ij = sum_r coefficients_fr columns_ir columns_jr`` for feature f, scaled to
    squares that add up to 1. The last column is constant.

    Attributes:
        columns: Shape (chunks, people, r); zero rows fill up smaller chunks.
        coefficients: Shape (chunks, features, r).
        people_squares: Sum of squares of the row sums of the weights, (chunks, features).
        sizes: Number of people in each chunk, shape (chunks,).
    """

    columns: Tensor
    coefficients: Tensor
    people_squares: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, features: list[Tensor], places: Tensor, present: Tensor) -> Weights:
        """Return the weights of low-rank features.

        Args:
            features: For each feature ``U``, shape (n, r), with ``U U.T`` its centered Gram matrix.
            places: Positions of the people in each chunk, shape (chunks, people).
            present: Whether a position is in use, shape (chunks, people).
        """
        mask = present.unsqueeze(-1).to(features[0])
        sizes = present.sum(1).to(mask)
        pairs = sizes * (sizes - 1)
        parts = [feature[places] * mask for feature in features]
        widths = [part.shape[-1] for part in parts]
        columns = torch.cat([*parts, mask], -1)
        coefficients = columns.new_zeros(len(places), len(parts), columns.shape[-1])
        people_squares = columns.new_zeros(len(places), len(parts))
        begin = 0
        for f, (part, width) in enumerate(zip(parts, widths, strict=True)):
            own = part.square().sum(-1)  # the diagonal of the Gram matrix
            sums = (part @ part.sum(1).unsqueeze(-1)).squeeze(-1) - own
            shift = -sums.sum(1) / pairs.clamp_min(1)
            squares = (part.mT @ part).square().sum((1, 2)) - own.square().sum(1)
            norm = (squares - pairs * shift.square()).clamp_min(0).sqrt()
            # Two people, or a feature that is constant in a chunk, have no weights.
            scale = torch.where(norm > 1e-9 * own.sum(1), 1 / norm.clamp_min(1e-300), 0.0)
            coefficients[:, f, begin : begin + width] = scale[:, None]
            coefficients[:, f, -1] = scale * shift
            rows = scale[:, None] * (sums + (sizes - 1)[:, None] * shift[:, None])
            people_squares[:, f] = (rows * mask[..., 0]).square().sum(1)
            begin += width
        return cls(columns, coefficients, people_squares, sizes)

    def deviation(self, level: Level) -> Tensor:
        """Return the standard deviation over permutations, shape (chunks, features).

        A statistic splits into a part for pairs and one for single people. The latter vanishes if
        all groups are of the same size.
        """
        n = self.sizes[:, None]
        share = self.people_squares / (n - 2).clamp_min(1).square()
        pairs = (1 - 2 * (n - 2).clamp_min(0) * share).clamp_min(0)
        single = 4 * (n - 1).square() * share * n * level.people / (n - 1).clamp_min(1)
        deviation = (2 * pairs * self._pairs(level) + single).sqrt()
        return deviation.clamp_min(torch.finfo(deviation.dtype).tiny)

    def size(self, level: Level) -> Tensor:
        """Return the largest possible statistic of a kernel of this level, shape (chunks, 1)."""
        n = self.sizes[:, None]
        return (n * (n - 1) * self._pairs(level)).sqrt()

    def _pairs(self, level: Level) -> Tensor:
        """Return the mean square of a kernel's entries.

        A fine kernel sees almost no pairs. Its few entries must not count as much as all of those
        of a wide kernel, so it is treated as if everybody had a neighbor.
        """
        neighbors = self.sizes[:, None] * max(level.mean, LEAST_MEAN)
        return level.pairs * (1 / neighbors).clamp_min(1)

    def statistic(self, sums: Tensor) -> Tensor:
        """Return ``sum over i != j of w_ij k_ij``, shape (..., chunks, kernels, features).

        Args:
            sums: ``sum over i != j of u_i k_ij u_j`` for each column u and each kernel, shape
                (..., chunks, kernels, r).
        """
        return sums @ self.coefficients.mT

    def take(self, chunks: slice) -> Weights:
        """Return the weights of some chunks."""
        return Weights(**{name: part[chunks] for name, part in vars(self).items()})

    def to(self, like: Tensor) -> Weights:
        """Return the weights with the dtype and on the device of a tensor."""
        return Weights(**{name: part.to(like) for name, part in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Alike:
    """People with equal features, who have equal weights.

    Attributes:
        order: Everybody, those with equal features one after the other, shape (n,).
        back: The place of each person in `order`, shape (n,).
        sizes: The number of people with each combination of values.
    """

    order: Tensor
    back: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, sensitive: SensitiveFeatures) -> Alike | None:
        """Return the people with equal features; None if they are few."""
        _, groups = distinct_rows(sensitive_sample(sensitive)[0])
        sizes = torch.bincount(groups)
        if len(sizes) > MOST_ALIKE or len(groups) < LEAST_ALIKE * len(sizes):
            return None
        order = torch.argsort(groups, stable=True)
        return cls(order, torch.argsort(order), tuple(sizes.tolist()))

    @property
    def groups(self) -> Tensor:
        """The number of the combination of values of each person, shape (n,)."""
        sizes = torch.tensor(self.sizes, dtype=torch.long, device=self.back.device)
        return torch.repeat_interleave(sizes)[self.back]

    def take(self, people: Tensor) -> Alike:
        """Return some of the people; a combination that none of them has stays, of size 0."""
        groups = self.groups[people]
        order = torch.argsort(groups, stable=True)
        sizes = torch.bincount(groups, minlength=len(self.sizes))
        return Alike(order, torch.argsort(order), tuple(sizes.tolist()))

    def to(self, device: torch.device) -> Alike:
        """Return the same on another device."""
        return Alike(self.order.to(device), self.back.to(device), self.sizes)


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


def distinct_rows(sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of a matrix, sorted, and the place of every row among them.

    ``torch.unique`` along a dimension takes seconds for a million rows.
    """
    codes = np.zeros(len(sample), dtype=np.int64)
    for column in sample.numpy().T:
        values, own = np.unique(column, return_inverse=True)
        # Renumbered after each column, so that the numbers stay small.
        codes = np.unique(codes * len(values) + own, return_inverse=True)[1]
    _, first = np.unique(codes, return_index=True)
    return sample[torch.from_numpy(first)], torch.from_numpy(codes)


def feature_factors(sensitive: SensitiveFeatures) -> list[Tensor]:
    """Return the centered low-rank factor of each feature, then that of their combination.

    Several columns are judged one by one, so that one cannot make up for another, and jointly.
    """
    sample, kernel = sensitive_sample(sensitive)
    kernels = [SensitiveKernel((own,)) for own in kernel.kernels]
    samples = [sample[:, c : c + 1] for c in range(len(kernels))]
    if len(kernels) > 1:
        samples, kernels = [*samples, sample], [*kernels, kernel]
    factors = [_factor(one, own) for one, own in zip(samples, kernels, strict=True)]
    return [_shorten(factor - factor.mean(0)) for factor in factors]


def _factor(sample: Tensor, kernel: SensitiveKernel) -> Tensor:
    """Return ``U`` with ``U U.T`` the Gram matrix: exact, unless there are many distinct values."""
    distinct, places = distinct_rows(sample)
    if len(distinct) > MOST_DISTINCT:
        return low_rank_factor(sample, kernel, most=MOST_LOW_RANK)
    values, vectors = torch.linalg.eigh(kernel(distinct, distinct))
    factor: Tensor = (vectors * values.clamp_min(0).sqrt())[places]
    return factor


def _shorten(factor: Tensor) -> Tensor:
    """Return a factor of the same Gram matrix with as few columns as its accuracy needs."""
    vectors, values, _ = torch.linalg.svd(factor, full_matrices=False)
    kept: Tensor = (vectors * values)[:, values > ACCURACY * values.max()]
    return kept
