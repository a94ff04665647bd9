"""Directions of entries: in which people differ most, and which tell about features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures

# Rounding errors of n x p entries have singular values of about the norm times the precision times
# (n**-0.5 + p**-0.5). Singular values below this many of norm times precision are rounding errors.
ROUNDING_ERRORS = 10


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Entries in double precision; in an orthonormal basis of their span if that is smaller.

    Attributes:
        rows: One row per person.
        basis: Shape (columns, coordinates); None if the coordinates are the columns themselves.
        least: Singular values below this are rounding errors of the entries.
    """

    rows: Tensor
    basis: Tensor | None
    least: float

    @classmethod
    def of(cls, entries: Tensor) -> Coordinates:
        """Return the coordinates of entries; their dtype tells their precision."""
        found = entries.double()
        least = ROUNDING_ERRORS * torch.finfo(entries.dtype).eps * float(found.norm())
        if len(found) >= found.shape[1]:
            return cls(found, None, least)
        basis, triangle = torch.linalg.qr(found.mT)
        return cls(triangle.mT.contiguous(), basis, least)

    def weights(self, directions: Tensor) -> Tensor:
        """Return directions of the coordinates as weights of the entries."""
        return directions if self.basis is None else self.basis @ directions


def encode_centered(sensitive: SensitiveFeatures, like: Tensor) -> Tensor:
    """Return the encoded features minus their means, shape (n, d), in double precision."""
    encoded = sensitive.encode().to(like.device)
    return encoded - encoded.mean(0)


def orthonormal(matrix: Tensor, *, size: float | None = None) -> Tensor:
    """Return an orthonormal basis of what the columns of a matrix span.

    Args:
        matrix: The matrix.
        size: The norm of what it was computed from, which tells its rounding errors; its own norm
            if None.
    """
    vectors, singular, _ = torch.linalg.svd(matrix, full_matrices=False)
    size = float(singular.norm()) if size is None else size
    basis: Tensor = vectors[:, singular > ROUNDING_ERRORS * torch.finfo(matrix.dtype).eps * size]
    return basis


def complement(vectors: Tensor) -> Tensor:
    """Return an orthonormal basis of what is orthogonal to orthonormal columns."""
    everything: Tensor = torch.linalg.qr(vectors, mode="complete")[0]
    return everything[:, vectors.shape[1] :]


def singular_directions(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the singular values of rows, the largest first, and their directions as columns."""
    if len(rows) > rows.shape[1]:
        rows = torch.linalg.qr(rows, mode="r")[1]
    _, singular, directions = torch.linalg.svd(rows, full_matrices=False)
    return singular, directions.mT


def principal(rows: Tensor, rank: int, *, least: float) -> Tensor:
    """Return the directions in which rows are largest, shape (columns, rank).

    This is a principal component analysis without centering: the decomposition has no constant.

    Args:
        rows: The rows.
        rank: Number of directions.
        least: Singular values up to this are rounding errors.
    """
    singular, directions = singular_directions(rows)
    check_possible(rank, int((singular > least).sum()))
    return directions[:, :rank]


def check_possible(rank: int, possible: int) -> None:
    """Raise unless entries have so many components."""
    if rank > possible:
        raise ValueError(
            f"rank must be at most {possible} here, got {rank}: after what tells about the "
            f"sensitive features is removed, the entries have {possible} components; lower rank, "
            "or use more columns or people"
        )
