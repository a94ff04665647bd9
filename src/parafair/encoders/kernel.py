"""The kernel encoder: similarities to training people, with a matrix of weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parafair.data.tensor_data import TensorData
from parafair.dependence.kernels import Gaussian, check_gamma
from parafair.encoders.unfolding import check_columns, check_rank_of, unfold

# Similarities that are in memory at once.
MOST_AT_ONCE = 2**22


def similarities(entries: Tensor, centers: Tensor, gamma: float) -> Iterator[tuple[slice, Tensor]]:
    """Yield the Gaussian kernel between people and centers, some people at a time.

    Args:
        entries: One row per person.
        centers: One row per center.
        gamma: Multiplier of the squared distances.

    Yields:
        The people, and their similarities in double precision, shape (some, centers).
    """
    kernel, size = Gaussian(gamma), max(1, MOST_AT_ONCE // len(centers))
    for begin in range(0, len(entries), size):
        people = slice(begin, begin + size)
        yield people, kernel(entries[people].to(centers), centers)


@dataclass(frozen=True, eq=False)
class KernelEncoder:
    """Rows ``k(entries, centers) @ weights`` with the Gaussian kernel; no entry may be missing.

    It contains entries of training people: whoever has the encoder has them. Whoever shares a model
    with a kernel encoder shares these people's data.

    Attributes:
        mode: The mode of the people.
        gamma: Multiplier of the squared distances.
        centers: Entries of training people, shape (centers, columns). Float64.
        weights: Shape (centers, rank). Float64.
    """

    mode: int
    gamma: float
    centers: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def __repr__(self) -> str:
        (centers, columns), rank = self.centers.shape, self.weights.shape[1]
        return f"KernelEncoder({columns:,} entries, {centers:,} centers -> {rank})"

    @property
    def needs_all_entries(self) -> bool:
        """True: it raises if an entry is missing."""
        return True

    def encode(self, data: TensorData) -> Tensor:
        """Return one row per person, shape (people, rank)."""
        entries = unfold(data, self.mode)
        centers, weights = (part.to(entries.device) for part in (self.centers, self.weights))
        rows = [near @ weights for _, near in similarities(entries, centers, self.gamma)]
        return torch.cat(rows).to(data.values)

    def then(self, matrix: Tensor) -> KernelEncoder:
        """Return the encoder whose rows are those of this one times a matrix."""
        return replace(self, weights=self.weights @ matrix.to(self.weights))

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise unless it belongs to a model of this shape and rank."""
        check_rank_of(self.weights, rank)
        if self.centers.ndim != 2 or len(self.centers) != len(self.weights):
            raise ValueError(
                f"its centers have the shape {tuple(self.centers.shape)}, but it has weights of "
                f"{len(self.weights)}"
            )
        check_columns(shape, self.mode, self.centers.shape[1])
