"""Fair principal component analysis: equal means, and equal covariances.

Kleindessner, Donini, Russell and Zafar, "Efficient fair PCA for fair representation learning",
AISTATS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from parafair.arguments import real_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.subspaces import (
    Coordinates,
    check_possible,
    complement,
    encode_centered,
    orthonormal,
    principal,
    singular_directions,
)


@dataclass(frozen=True)
class FairPCA:
    """Principal components of the entries, among directions in which groups have equal means.

    With centered encoded features ``Z`` and entries ``X``, the weights are orthonormal directions
    ``v`` with ``Z.T @ X @ v = 0`` for which ``||X v||`` is largest. With numeric features, the rows
    are uncorrelated with them. Linear attackers with a least-squares fit are at chance on the
    people of the fit; others are not.
    """

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> LinearEncoder:
        """Return the encoder of these people."""
        own = Coordinates.of(entries)
        kept = _of_equal_means(own, sensitive)
        directions = kept @ principal(own.rows @ kept, rank, least=own.least)
        return LinearEncoder.of(entries, own.weights(directions), mode)


@dataclass(frozen=True)
class FairPCACovariance:
    """Fair PCA with nearly equal covariances of all groups too.

    Of the directions in which all groups have equal means, those are kept in which covariances
    differ least: the eigenvectors of ``S(1) - S(0)`` whose eigenvalues are closest to 0, where
    ``S(g)`` is the covariance of a group. Then come their principal components. Covariances are
    equal if enough eigenvalues are 0, and nearly equal otherwise.

    For several groups, the eigenvectors are those of the mean over people of
    ``(S(g) - S) @ (S(g) - S)``, where ``S`` is the covariance of everybody; for two groups these
    are the same. For numbers and several columns the covariance of the entries with a centered
    feature takes the place of ``S(g) - S``, summed over uncorrelated features.

    Attributes:
        keep: Share of the directions that is kept, at least `rank` of them. The smaller, the more
            equal are the covariances and the larger is the residual.
    """

    keep: float = 0.5

    def __post_init__(self) -> None:
        real_number("keep", self.keep, least=0, most=1)

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> LinearEncoder:
        """Return the encoder of these people."""
        own = Coordinates.of(entries)
        kept = _of_equal_means(own, sensitive)
        singular, directions = singular_directions(own.rows @ kept)
        # Directions without any entries have equal covariances, and nothing else.
        possible = int((singular > own.least).sum())
        check_possible(rank, possible)
        kept = kept @ directions[:, :possible]
        differences = _covariance_differences(own.rows @ kept, sensitive)
        count = max(rank, ceil(self.keep * possible))
        kept = kept @ torch.linalg.eigh(differences)[1][:, :count]
        directions = kept @ singular_directions(own.rows @ kept)[1][:, :rank]
        return LinearEncoder.of(entries, own.weights(directions), mode)


def _of_equal_means(own: Coordinates, sensitive: SensitiveFeatures) -> Tensor:
    """Return the directions in which rows are uncorrelated with all features."""
    features = orthonormal(encode_centered(sensitive, own.rows))
    return complement(orthonormal(own.rows.mT @ features, size=float(own.rows.norm())))


def _covariance_differences(rows: Tensor, sensitive: SensitiveFeatures) -> Tensor:
    """Return how much covariances differ by direction, as a positive matrix."""
    features = orthonormal(encode_centered(sensitive, rows)) * len(rows) ** 0.5
    centered = rows - rows.mean(0)
    found = rows.new_zeros(rows.shape[1], rows.shape[1])
    for feature in features.mT:
        difference = (centered * feature[:, None]).mT @ centered / len(rows)
        found += difference @ difference
    return found
