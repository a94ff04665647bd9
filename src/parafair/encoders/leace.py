"""LEACE: the least change of entries after which no linear attacker is better than chance.

Belrose, Schneider-Joseph, Ravfogel, Cotterell, Raff and Biderman, "LEACE: perfect linear concept
erasure in closed form", NeurIPS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.subspaces import Coordinates, encode_centered, orthonormal, principal


@dataclass(frozen=True)
class LEACE:
    """Least-squares concept erasure of the entries, then their principal components.

    Entries ``x`` become ``mean + (x - mean) @ M``, where ``M`` is the matrix for which they are
    uncorrelated with the encoded features and change least on average. No linear attacker on the
    people of the fit is better than one who knows nothing; others are.
    """

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> LinearEncoder:
        """Return the encoder of these people."""
        own = Coordinates.of(entries)
        mean = own.rows.mean(0)
        centered = own.rows - mean
        eraser = erasing_matrix(centered, encode_centered(sensitive, centered), least=own.least)
        directions = principal(centered @ eraser + mean, rank, least=own.least)
        return LinearEncoder(
            mode,
            entries.double().mean(0),
            own.weights(eraser @ directions),
            mean @ directions,
        )


def erasing_matrix(centered: Tensor, features: Tensor, *, least: float) -> Tensor:
    """Return ``M`` such that rows ``x @ M`` are uncorrelated with the features, and change least.

    With ``W`` the inverse square root of the covariance and ``U`` an orthonormal basis of what
    ``W @ cov(x, features)`` spans, ``M = I - W @ U @ U.T @ inverse(W)``.

    Args:
        centered: Rows with mean 0, shape (n, columns).
        features: Features with mean 0, shape (n, d).
        least: Singular values of the rows up to this are rounding errors.
    """
    people, singular, directions = torch.linalg.svd(centered, full_matrices=False)
    some = singular > least
    people, singular, directions = people[:, some], singular[some], directions[some].mT
    # Whitened rows are `people @ directions.T`, so U is `directions @ known`.
    known = orthonormal(people.mT @ orthonormal(features), size=float(people.norm()))
    forth, back = directions / singular @ known, directions * singular @ known
    same = torch.eye(len(forth), dtype=forth.dtype, device=forth.device)
    changed: Tensor = same - forth @ back.mT
    return changed
