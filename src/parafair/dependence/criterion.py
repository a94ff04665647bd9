"""The invariant criterion: how much people's rows depend on their features, whatever the units.

Rows are whitened and their columns standardized before any kernel looks at them, so that
rescaling or shifting columns changes nothing, and mixing them changes only the part that looks
at single columns. Kernels cover distances a factor of 16 apart, which makes it costly to hide
people by throwing a few far away, so that whitening squeezes all others together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.hsic import (
    MOST_LOW_RANK,
    PermutationTest,
    gram_product,
    low_rank_factor,
)
from parafair.dependence.kernels import MultiscaleGaussian
from parafair.dependence.pairwise import CHUNK_PEOPLE, ChunkSums, ColumnSums, sensitive_sample

# Scales of the two kernels. Whitened rows of normal data are 2 * rank apart in squared distance,
# so the widest kernel sees all of them and the finest one near neighbors only.
ISOTROPIC = MultiscaleGaussian(gamma=0.25, count=5)
COMPONENT = MultiscaleGaussian(gamma=0.5, count=3)
ISOTROPIC_SHARE = 0.5

# Variances of whitened directions below this share of the largest are rounding error.
RIDGE = 1e-12


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
class Criterion:
    """Dependence between rows and sensitive features: 0 none, 1 as much as the features themselves.

    HSIC over the HSIC of an embedding that *is* the sensitive features. One half of it looks at
    whitened rows; one quarter at standardized columns one by one, the components; one quarter at
    whitened columns one by one.

    Attributes:
        sensitive: The features.
        like: A tensor with the precision and device to compute with.
        block: About how many people all pairs of rows are looked at of; more are dealt into blocks.
    """

    sensitive: SensitiveFeatures
    like: Tensor
    block: int = CHUNK_PEOPLE

    @cached_property
    def row_sums(self) -> ChunkSums:
        """The sums over pairs of whitened rows."""
        return ChunkSums.of(self.sensitive, self.like, self.block)

    @cached_property
    def column_sums(self) -> ColumnSums:
        """The sums over pairs of single columns."""
        return ColumnSums(self.low_rank.to(self.like))

    @cached_property
    def low_rank(self) -> Tensor:
        """``U`` with ``U U.T`` the centered Gram matrix of the features over ``n**2``."""
        sample, kernel = sensitive_sample(self.sensitive)
        factor = low_rank_factor(sample, kernel, most=MOST_LOW_RANK)
        return (factor - factor.mean(0)) / len(factor)

    @cached_property
    def _references(self) -> dict[int, float]:
        return {}

    def reference(self, rank: int) -> float:
        """Return HSIC of the features as an embedding, seen by the kernels for this rank."""
        if rank not in self._references:
            rows = Standardized.of(self.sensitive.encode(prototype=self.like))
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
        """Test independence of rows, shape (n, rank), by permuting the people's features.

        All pairs of people are looked at; with people in blocks, the statistic is still relative to
        the reference in blocks.
        """
        random = check_random_state(random_state)
        orders = [torch.arange(len(rows))]
        orders += [torch.from_numpy(random.permutation(len(rows))) for _ in range(permutations)]
        low_rank = self.low_rank.to(self.like)
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whitened, columns = (
            standardized.whitened.to(low_rank),
            single_columns(standardized).to(low_rank),
        )
        totals = torch.zeros(len(orders), dtype=torch.float64)
        at_once = max(1, 2**23 // low_rank.numel())
        for begin in range(0, len(orders), at_once):
            shuffled = torch.stack(
                [low_rank[order] for order in orders[begin : begin + at_once]], 1
            )
            image = gram_product(whitened, isotropic_kernel(rank), shuffled.flatten(1))
            whole = (image.reshape(shuffled.shape) * shuffled).sum((0, 2))
            single = ColumnSums(shuffled.flatten(1)).each(columns, COMPONENT).mean(0)
            single = single.reshape(shuffled.shape[1:]).sum(1)
            mean = ISOTROPIC_SHARE * whole + (1 - ISOTROPIC_SHARE) * single
            totals[begin : begin + at_once] = mean.double().cpu()
        values = totals / self.reference(rank)
        # Rounding must not decide ties, such as a permutation that changes nothing.
        as_large = values[1:] >= values[0] * (1 - torch.finfo(low_rank.dtype).eps ** 0.5)
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


def isotropic_kernel(rank: int) -> MultiscaleGaussian:
    """Return the kernel of whitened rows, whose distances grow with the rank."""
    return MultiscaleGaussian(ISOTROPIC.gamma / (2 * rank), ISOTROPIC.count)


def single_columns(rows: Standardized) -> Tensor:
    """Return components, then whitened columns, shape (..., 2 rank, n, 1)."""
    return torch.cat([rows.columns, rows.whitened], -1).mT.unsqueeze(-1)
