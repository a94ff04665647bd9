"""The invariant criterion: dependence between rows and sensitive features, in any units.

Rows are whitened and their columns standardized before a kernel is applied. So rescaling or
shifting columns changes nothing, and mixing them changes only the part for single columns.
Kernels cover distances that differ by a factor of 16. Otherwise a few people far away would make
whitening squeeze all others together, and hide them from a kernel of one scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.arguments import whole_number
from parafair.data.randomness import RandomState, as_random
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.gram import MOST_LOW_RANK, gram_product, low_rank_factor
from parafair.dependence.kernels import MultiscaleGaussian
from parafair.dependence.pairwise import CHUNK_PEOPLE, ChunkSums, ColumnSums, sensitive_sample
from parafair.dependence.whitening import Standardized

# Scales of the two kernels. Whitened rows of normal data are 2 * rank apart in squared distance,
# so the widest kernel covers all of them and the finest one only near neighbors.
ISOTROPIC = MultiscaleGaussian(gamma=0.25, count=5)
COMPONENT = MultiscaleGaussian(gamma=0.5, count=3)
ISOTROPIC_SHARE = 0.5


@dataclass(frozen=True)
class PermutationTest:
    """Whether a dependence differs from chance, in either direction.

    Attributes:
        statistic: The criterion of the original order.
        p_value: Twice the share of permutations, including the identity, whose statistic is at
            least as large, or at most as large, whichever is smaller; at most 1. A statistic that
            is too small means that people are matched across groups.
        null_mean: Mean of the statistic over the permutations: its level under independence.
        permutations: Number of permutations.
    """

    statistic: float
    p_value: float
    null_mean: float
    permutations: int

    @classmethod
    def of(cls, values: Tensor) -> PermutationTest:
        """Return the test whose statistics are these: the original order, then permutations."""
        # Rounding must not decide ties, such as a permutation that changes nothing.
        tie = torch.finfo(values.dtype).eps ** 0.5 * values[0].abs()
        above = 1 + int((values[1:] >= values[0] - tie).sum())
        below = 1 + int((values[1:] <= values[0] + tie).sum())
        p_value = min(1.0, 2 * min(above, below) / len(values))
        return cls(float(values[0]), p_value, float(values[1:].mean()), len(values) - 1)


@dataclass(frozen=True, eq=False)
class Criterion:
    """Dependence between rows and sensitive features: 0 none, 1 as much as the features themselves.

    HSIC divided by the HSIC of an embedding that *is* the sensitive features. One half of it is
    for whitened rows, one quarter for single standardized columns (the components), and one
    quarter for single whitened columns.

    Attributes:
        sensitive: The features.
        prototype: A tensor with the dtype and device to use.
        chunk_size: Chunk size for sums over pairs of rows; more people are split into chunks.
    """

    sensitive: SensitiveFeatures
    prototype: Tensor
    chunk_size: int = CHUNK_PEOPLE

    @cached_property
    def row_sums(self) -> ChunkSums:
        """The sums over pairs of whitened rows."""
        return ChunkSums.of(self.sensitive, self.prototype, self.chunk_size)

    @cached_property
    def column_sums(self) -> ColumnSums:
        """The sums over pairs of single columns."""
        return ColumnSums(self.low_rank.to(self.prototype))

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
        """Return HSIC of the features as an embedding, with the kernels for this rank."""
        if rank not in self._references:
            rows = Standardized.of(self.sensitive.encode(prototype=self.prototype))
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

        With several chunks, the part for rows is the mean over permutations within chunks.
        """
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whole = self.row_sums.null(standardized.whitened.to(self.prototype), isotropic_kernel(rank))
        single = self.column_sums.null(single_columns(standardized).to(self.prototype), COMPONENT)
        mean = ISOTROPIC_SHARE * whole + (1 - ISOTROPIC_SHARE) * single.mean(-1)
        return mean / self.reference(rank)

    def permuted(self, rows: Tensor, *, permutations: int, random_state: RandomState) -> Tensor:
        """Return the criterion of the original order and of permutations of the features.

        It is over all pairs of people. With several chunks, the reference is that of the chunks.

        Args:
            rows: The embedding, shape (n, rank).
            permutations: Number of permutations.
            random_state: Seed of the permutations.
        """
        whole_number("permutations", permutations)
        random = as_random(random_state)
        orders = [torch.arange(len(rows), device="cpu")]
        orders += [torch.from_numpy(random.permutation(len(rows))) for _ in range(permutations)]
        low_rank = self.low_rank.to(self.prototype)
        standardized, rank = Standardized.of(rows), rows.shape[-1]
        whitened, columns = (
            standardized.whitened.to(low_rank),
            single_columns(standardized).to(low_rank),
        )
        totals = torch.zeros(len(orders), dtype=torch.float64, device="cpu")
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
        return totals / self.reference(rank)

    def _pairs(self, rows: Standardized, rank: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return HSIC and its gradients in the whitened rows and in the columns."""
        whole, for_whitened = self.row_sums.weighted(
            rows.whitened.to(self.prototype.dtype), isotropic_kernel(rank)
        )
        columns = single_columns(rows).to(self.prototype.dtype)
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
