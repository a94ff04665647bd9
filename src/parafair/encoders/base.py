"""Protocols of encoders: maps from a person's entries to a row that never use the group.

A fitted model may have an `Encoder`. Then it embeds new people without their sensitive features,
and people with the same entries get the same row, whatever their group. A `Reduction` is a method
whose embedding is that of an encoder from the start.

An encoder is a frozen dataclass. Its fields are tensors, tuples of tensors and plain settings
(numbers, text, tuples of these), so `parafair.encoders.files` can store any registered encoder.
"""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData


@runtime_checkable
class Encoder(Protocol):
    """A fitted map from entries to rows without noise; must be a frozen dataclass."""

    @property
    def mode(self) -> int:
        """The mode of the people."""

    def encode(self, data: TensorData) -> Tensor:
        """Return one row per person, shape (people, rank), in the dtype and on the device of data.

        A row depends on the entries of its person alone.

        Args:
            data: Entries of people, in the order of the model's labels and without its offsets.
        """

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise a `ValueError` unless it belongs to a model of this shape and rank."""


@runtime_checkable
class ComposableEncoder(Encoder, Protocol):
    """An encoder that can be followed by a linear map."""

    def then(self, matrix: Tensor) -> Self:
        """Return the encoder whose rows are those of this one times a matrix.

        Args:
            matrix: Shape (rank, new rank).
        """


@runtime_checkable
class CompleteEncoder(Encoder, Protocol):
    """An encoder that may need all entries of a person; a model fills in those that are missing."""

    @property
    def needs_all_entries(self) -> bool:
        """Whether it raises if an entry is missing."""


@runtime_checkable
class Reduction(Protocol):
    """Settings of a method that computes an encoder from entries; must be a dataclass."""

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> ComposableEncoder:
        """Return the encoder of these people.

        Args:
            entries: One row per person, all other modes unfolded; no entry is missing.
            sensitive: Their sensitive features.
            rank: Number of components.
            mode: The mode of the people, for the encoder.
        """


@runtime_checkable
class CountedReduction(Reduction, Protocol):
    """A reduction that may set the number of components itself."""

    def components(self, sensitive: SensitiveFeatures) -> int | None:
        """Return the number of components for these features; None for that of the model."""
