"""Fair dimension reduction by HSIC, linear and with a kernel.

Perez-Suay, Laparra, Mateo-Garcia, Munoz-Mari, Gomez-Chova and Camps-Valls, "Fair kernel learning",
ECML PKDD 2017. With ``H`` the centering matrix and ``Q`` the encoded features, components have much
dependence on the entries and little on the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parafair.arguments import flag, real_number, whole_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.kernels import Gamma, Gaussian
from parafair.encoders.kernel import KernelEncoder, similarities
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.subspaces import (
    ROUNDING_ERRORS,
    Coordinates,
    check_possible,
    encode_centered,
    singular_directions,
)

# Eigenvalues of a Gram matrix below this share of the largest one are rounding errors.
SINGULAR = 1e-12

# More landmarks make a square Gram matrix of several gigabytes.
MOST_LANDMARKS = 20_000


@dataclass(frozen=True)
class PerezSuay:
    """The linear method: dependence on the entries against that on the features.

    It maximizes ``v.T (X.T X)^2 v / v.T (X.T H Q Q.T H X + ridge I) v``. The embedding is
    ``X v``. With a small ridge this is nearly fair PCA with equal means: it stops linear attackers,
    and little more.

    Attributes:
        ridge: The smaller, the less of the mean differences remains. It is a multiple of the mean
            squared entry, so that the units of the entries do not matter. For standardized entries
            this is the formula of the paper.
        as_in_paper: Whether to keep as many components as the encoded features have columns, and to
            take the ridge as it is, as the paper does, whatever the rank of the model and the units
            of the entries. In small units such a ridge hides nothing.
    """

    ridge: float = 1e-7
    as_in_paper: bool = False

    def __post_init__(self) -> None:
        real_number("ridge", self.ridge, above=0)
        flag("as_in_paper", self.as_in_paper)

    def components(self, sensitive: SensitiveFeatures) -> int | None:
        """Return the number of components for these features; None for that of the model."""
        return count_columns(sensitive) if self.as_in_paper else None

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> LinearEncoder:
        """Return the encoder of these people."""
        own = Coordinates.of(entries)
        covariance = own.rows.mT @ encode_centered(sensitive, own.rows)
        unit = 1.0 if self.as_in_paper else float(entries.double().square().mean())
        directions = dependent_directions(
            own.rows.mT @ own.rows, covariance, rank=rank, ridge=self.ridge * unit
        )
        return LinearEncoder.of(entries, own.weights(directions), mode)


@dataclass(frozen=True)
class KernelPerezSuay:
    """The kernel method: dependence on the entries against that on the features.

    It maximizes ``a.T K H K H K a / a.T (K H Q Q.T H K + ridge I) a``. ``K`` is the Gram
    matrix of the Gaussian kernel, and the embedding is ``K a``. If there are many people, ``a`` is
    zero for all but some landmarks, and ``K`` in the middle is its Nystrom approximation. With as
    many landmarks as people this is the formula. The encoder contains the entries of the landmarks;
    see `parafair.encoders.kernel.KernelEncoder`.

    Rows have nearly equal means in all groups, so linear attackers are stopped, and little more.

    Attributes:
        gamma: Multiplier of squared distances, or "median" to choose it from the entries.
        ridge: The smaller, the less of the mean differences remains.
        landmarks: Number of training people in the encoder; everybody if there are fewer.
        as_in_paper: Whether to keep as many components as the encoded features have columns, as the
            paper does. The kernel has no units, and the ridge is that of the paper in any case.
        seed: Seed of the draw of the landmarks.
    """

    gamma: Gamma = "median"
    ridge: float = 1e-7
    landmarks: int = 1000
    as_in_paper: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        Gaussian(self.gamma)
        real_number("ridge", self.ridge, above=0)
        whole_number("landmarks", self.landmarks, most=MOST_LANDMARKS)
        flag("as_in_paper", self.as_in_paper)
        whole_number("seed", self.seed, least=0)

    def components(self, sensitive: SensitiveFeatures) -> int | None:
        """Return the number of components for these features; None for that of the model."""
        return count_columns(sensitive) if self.as_in_paper else None

    def encoder_for(
        self, entries: Tensor, sensitive: SensitiveFeatures, *, rank: int, mode: int
    ) -> KernelEncoder:
        """Return the encoder of these people."""
        centers = entries[self._landmarks(len(entries))].double()
        kernel = Gaussian(self.gamma).resolve(entries.double())
        gamma = float(kernel.gamma)
        features = encode_centered(sensitive, centers)
        count = len(centers)
        gram = centers.new_zeros(count, count)
        total, covariance = centers.new_zeros(count), centers.new_zeros(count, features.shape[1])
        for people, near in similarities(entries, centers, gamma):
            gram += near.mT @ near
            total += near.sum(0)
            covariance += near.mT @ features[people]
        gram -= torch.outer(total, total) / len(entries)
        values, vectors = torch.linalg.eigh(kernel(centers, centers))
        some = values > SINGULAR * values.max()
        root = (vectors[:, some] / values[some].sqrt()).mT @ gram
        weights = dependent_directions(root, covariance, rank=rank, ridge=self.ridge)
        return KernelEncoder(mode, gamma, centers, weights)

    def _landmarks(self, people: int) -> Tensor:
        """Return the positions of the landmarks, in order."""
        order = np.random.default_rng(self.seed).permutation(people)
        return torch.from_numpy(np.sort(order[: self.landmarks]))


def count_columns(sensitive: SensitiveFeatures) -> int:
    """Return the number of columns of the encoded features."""
    return sensitive.encode().shape[1]


def dependent_directions(root: Tensor, covariance: Tensor, *, rank: int, ridge: float) -> Tensor:
    """Return unit columns ``v`` with the largest ``||R v||^2 / (||C.T v||^2 + ridge ||v||^2)``.

    These are the first eigenvectors of ``R.T R v = value (C C.T + ridge I) v``. The matrix
    on the right is far from well conditioned. It is a multiple of the identity plus a matrix of low
    rank, so its inverse square root is known without solving for it.

    Args:
        root: ``R``, shape (any, columns).
        covariance: ``C``, shape (columns, d).
        rank: Number of columns to return.
        ridge: The ridge.
    """
    vectors, singular, _ = torch.linalg.svd(covariance, full_matrices=False)
    precise = ROUNDING_ERRORS * torch.finfo(root.dtype).eps
    some = singular > precise * covariance.norm()
    vectors, singular = vectors[:, some], singular[some]
    # Where features have a covariance, components would tell about them.
    possible = int((singular_directions(root)[0] > precise * root.norm()).sum()) - len(singular)
    check_possible(rank, max(0, possible))
    # The inverse square root is I - vectors @ diag(less) @ vectors.T, in units of the ridge.
    less = 1 - (ridge / (singular.square() + ridge)).sqrt()
    scaled = root - (root @ vectors * less) @ vectors.mT
    found = singular_directions(scaled)[1][:, :rank]
    found = found - (vectors * less) @ (vectors.mT @ found)
    unit: Tensor = found / found.norm(dim=0)
    return unit
