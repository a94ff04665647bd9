"""Postprocessing: common methods that change the embedding of a plain decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.quantile_map import QuantileMap

# Variances below this share of the largest one are rounding error.
SINGULAR = 1e-12


class Decomposed(Protocol):
    """A plain decomposition as postprocessing sees it. It is not changed; methods return another.

    People without sensitive features or without observed entries are not part of `rows`.
    """

    @property
    def rows(self) -> Tensor:
        """The embedding of the people with sensitive features, shape (people, rank)."""

    @property
    def sensitive(self) -> SensitiveFeatures:
        """Their sensitive features."""

    @property
    def block(self) -> Block:
        """The loss and the ridge as a function of `rows`, a batch of one."""

    @property
    def loss(self) -> float:
        """The loss and the ridge of everybody."""

    def with_rows(self, rows: Tensor) -> Self:
        """Return the decomposition with other rows."""

    def refit(self) -> Self:
        """Return the decomposition with the other factors refitted to the rows, then the rows."""


D = TypeVar("D", bound=Decomposed)


@runtime_checkable
class Postprocessing(Protocol):
    """Settings of a change to a decomposition after the fit; must be a dataclass."""

    def check(self, sensitive: SensitiveFeatures) -> None:
        """Raise if the method cannot use these features; called before the fit."""

    def apply(self, plain: D) -> D:
        """Return the changed decomposition."""


@runtime_checkable
class SeededPostprocessing(Postprocessing, Protocol):
    """Postprocessing that draws random numbers."""

    def with_seed(self, seed: int) -> Self:
        """Return it with the seed of a fit, unless it has a seed of its own."""


@runtime_checkable
class MappedPostprocessing(Postprocessing, Protocol):
    """Postprocessing by a map that new people with sensitive features follow too.

    Attributes:
        default_noise: The noise of fits by default, as a share of the spread of the rows.
    """

    default_noise: ClassVar[float]

    def learn(self, plain: D) -> tuple[D, QuantileMap]:
        """Return the changed decomposition, and the map from least-squares rows."""


@dataclass(frozen=True)
class CorrelationRemoval:
    """Subtract from each component its linear regression on the sensitive features.

    This is the method of fairlearn's `CorrelationRemover`. Afterwards no component is correlated
    with any feature; all other dependence remains.
    """

    def check(self, sensitive: SensitiveFeatures) -> None:
        """Accept all features."""

    def apply(self, plain: D) -> D:
        """Replace the rows by the residuals of the regression, plus the means."""
        encoded = plain.sensitive.encode(prototype=plain.rows)
        directions, singular, _ = torch.linalg.svd(encoded - encoded.mean(0), full_matrices=False)
        kept = directions[:, singular > singular.max() * SINGULAR**0.5]
        return plain.with_rows(plain.rows - kept @ (kept.mT @ plain.rows))


@dataclass(frozen=True)
class MomentMatching:
    """Give every group the mean and the covariance of all people.

    Each group is mapped by ``a -> mean + C^(1/2) C_g^(-1/2) (a - mean_g)``. Groups are the
    observed combinations of categories. Other differences between groups remain.
    """

    def check(self, sensitive: SensitiveFeatures) -> None:
        """Raise if a feature is numeric."""
        find_groups(sensitive, "moment-matching", instead="correlation-removal")

    def apply(self, plain: D) -> D:
        """Give the rows equal moments in all groups."""
        groups = find_groups(plain.sensitive, "moment-matching", instead="correlation-removal")
        factor, codes = plain.rows, groups.values
        result, mean = factor.clone(), factor.mean(0)
        # The covariance within groups: with equal means there is none between groups.
        centered = factor - torch.stack([factor[codes == c].mean(0) for c in codes])
        target = _root(centered.mT @ centered / len(factor))
        for code in np.unique(codes):
            group = factor[codes == code]
            deviation = group - group.mean(0)
            root = _root(deviation.mT @ deviation / len(group))
            inverse = torch.linalg.pinv(root, rtol=SINGULAR**0.5, hermitian=True)
            result[codes == code] = mean + deviation @ inverse @ target
        return plain.with_rows(result)


def _root(matrix: Tensor) -> Tensor:
    """Return the symmetric square root of a covariance."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp_min(0).sqrt()) @ vectors.mT
    return root


def find_groups(sensitive: SensitiveFeatures, method: str, *, instead: str) -> Column:
    """Return the combinations of categories that occur, as one feature.

    Args:
        sensitive: The features.
        method: The name of the method that needs groups, for the message.
        instead: The name of one that takes numbers.
    """
    numeric = [column.name for column in sensitive.columns if column.kind == "numeric"]
    if numeric:
        raise ValueError(
            f"method={method!r} needs groups, but sensitive feature {numeric[0]!r} is "
            f"numeric; make it categorical, or use method={instead!r}"
        )
    return sensitive.joint(1)
