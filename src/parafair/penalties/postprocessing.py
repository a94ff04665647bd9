"""Postprocessing: common methods that change the embedding of a plain decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures

# Variances below this share of the largest one are rounding error.
SINGULAR = 1e-12


@runtime_checkable
class Postprocessing(Protocol):
    """Settings of a change to an embedding after the fit; must be a dataclass."""

    def apply(self, factor: Tensor, sensitive: SensitiveFeatures) -> Tensor:
        """Return the changed factor, shape (n, rank)."""


@dataclass(frozen=True)
class CorrelationRemoval:
    """Subtract from each component its linear regression on the sensitive features.

    This is the method of fairlearn's `CorrelationRemover`. Afterwards no component is correlated
    with any feature; all other dependence remains.
    """

    def apply(self, factor: Tensor, sensitive: SensitiveFeatures) -> Tensor:
        """Return the residuals of the regression, plus the means."""
        encoded = sensitive.encode(prototype=factor)
        directions, singular, _ = torch.linalg.svd(encoded - encoded.mean(0), full_matrices=False)
        kept = directions[:, singular > singular.max() * SINGULAR**0.5]
        adjusted: Tensor = factor - kept @ (kept.mT @ factor)
        return adjusted


@dataclass(frozen=True)
class MomentMatching:
    """Give every group the mean and the covariance of all people.

    Each group is mapped by ``a -> mean + C^(1/2) C_g^(-1/2) (a - mean_g)``. Groups are the
    observed combinations of categories. Other differences between groups remain.
    """

    def apply(self, factor: Tensor, sensitive: SensitiveFeatures) -> Tensor:
        """Return the factor with equal moments in all groups."""
        codes = _combinations(sensitive)
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
        return result


def _root(matrix: Tensor) -> Tensor:
    """Return the symmetric square root of a covariance."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp_min(0).sqrt()) @ vectors.mT
    return root


def _combinations(sensitive: SensitiveFeatures) -> NDArray[np.intp]:
    """Return a code for each combination of categories, shape (n,)."""
    numeric = [column.name for column in sensitive.columns if column.kind == "numeric"]
    if numeric:
        raise ValueError(
            f"method='moment-matching' needs groups, but sensitive feature {numeric[0]!r} is "
            "numeric; make it categorical, or use method='correlation-removal'"
        )
    stacked = np.column_stack([column.values for column in sensitive.columns])
    codes: NDArray[np.intp] = np.unique(stacked, axis=0, return_inverse=True)[1].ravel()
    return codes
