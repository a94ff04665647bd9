"""The linear encoder: a matrix of weights for the entries."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from parafair.data.tensor_data import TensorData
from parafair.encoders.unfolding import check_columns, check_rank_of, unfold


@dataclass(frozen=True, eq=False)
class LinearEncoder:
    """Rows ``(entries - mean) @ weights + constant``; no entry may be missing.

    Rows have a constant because CP decompositions have none: without it, a decomposition of data
    that is not centered would lose the mean.

    Attributes:
        mode: The mode of the people.
        mean: Shape (columns,); the columns are the other modes, unfolded. Float64.
        weights: Shape (columns, rank). Float64.
        constant: Shape (rank,). Float64.
    """

    mode: int
    mean: Tensor
    weights: Tensor
    constant: Tensor

    def __repr__(self) -> str:
        columns, rank = self.weights.shape
        return f"LinearEncoder({columns:,} entries -> {rank})"

    @classmethod
    def of(cls, entries: Tensor, weights: Tensor, mode: int) -> LinearEncoder:
        """Return the encoder with rows ``entries @ weights``.

        Args:
            entries: Those that it is computed from; differences from their mean are precise.
            weights: The weights.
            mode: The mode of the people.
        """
        mean = entries.to(weights).mean(0)
        return cls(mode, mean, weights, mean @ weights)

    @property
    def needs_all_entries(self) -> bool:
        """True: it raises if an entry is missing."""
        return True

    def encode(self, data: TensorData) -> Tensor:
        """Return one row per person, shape (people, rank)."""
        entries = unfold(data, self.mode)
        mean, weights, constant = (
            part.to(entries.device) for part in (self.mean, self.weights, self.constant)
        )
        return ((entries.to(mean) - mean) @ weights + constant).to(data.values)

    def then(self, matrix: Tensor) -> LinearEncoder:
        """Return the encoder whose rows are those of this one times a matrix."""
        matrix = matrix.to(self.weights)
        return replace(self, weights=self.weights @ matrix, constant=self.constant @ matrix)

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise unless it belongs to a model of this shape and rank."""
        check_rank_of(self.weights, rank)
        check_columns(shape, self.mode, len(self.weights))
        if self.mean.shape != self.weights.shape[:1] or self.constant.shape != (rank,):
            raise ValueError("its mean or its constant does not have the shape of its weights")
