"""New people: their least-squares rows, shifted like those of the training, then refined.

A penalty shifts the people of the training away from their least-squares rows. A new person is
shifted like the nearest one of the training with the same sensitive features, so that people may
come one by one.

Shifts of others hide less than one's own. Many new people can be refined: they minimize the
objective of the training, their squared error plus the penalty, over their own rows. The people of
the training are not part of that sum. Their rows are over-fitted to the criterion, which would send
all new people of a group to the same gaps between them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import Standardized
from parafair.penalties import BoundPenalty
from parafair.solvers.majorize import Iterate, majorize

# Refinement stops when the objective falls by less than this share of itself in a step.
MAX_STEPS, TOL = 500, 1e-4


def nearest_trained(
    rows: Tensor,
    features: SensitiveFeatures,
    *,
    plain: Tensor,
    trained_features: SensitiveFeatures,
) -> NDArray[np.intp]:
    """Return for each new person the position of the nearest one of the training.

    Only people with the largest number of matching categories are compared. Distances are between
    whitened rows, beside which numeric features count as much as the rows do.

    Args:
        rows: Least-squares rows of the new people, shape (people, rank).
        features: Their features, in terms of those of the training.
        plain: Least-squares rows of the people of the training, shape (n, rank).
        trained_features: Their features.
    """
    standard = Standardized.of(plain)
    mean = plain.double().mean(0)
    whitened = torch.linalg.solve(standard.basis, rows.double() - mean, left=False)
    there = _places(standard.whitened, trained_features, trained_features)
    here = _places(whitened, features, trained_features)
    theirs, own = _categories(trained_features), _categories(features)
    found = np.empty(len(own), dtype=np.intp)
    for group in np.unique(own, axis=0):
        people = np.flatnonzero((own == group).all(1))
        agreeing = (theirs == group).sum(1)
        same = np.flatnonzero(agreeing == agreeing.max())
        search = NearestNeighbors(n_neighbors=1).fit(there[same])
        found[people] = same[search.kneighbors(here[people], return_distance=False)[:, 0]]
    return found


def minimize_rows(block: Block, bound: BoundPenalty, rows: Tensor) -> tuple[Tensor, bool]:
    """Return rows that minimize the squared error and a penalty, and whether they converged.

    Args:
        block: The squared error of the rows.
        bound: The penalty.
        rows: Where to begin, shape (people, rank).
    """
    point = Iterate(rows[None], *bound.value_and_gradient(rows[None]))
    # Moving one of n people by 1 changes about this much.
    curvature = point.value / len(rows)
    after = block.value(point.factor) + point.value
    for _ in range(MAX_STEPS):
        before = after
        point, curvature, accepted = majorize(block, bound, point, curvature)
        after = block.value(point.factor) + point.value
        if not accepted or before - after <= TOL * after:
            return point.factor[0], True
        curvature = curvature / 2
    return point.factor[0], False


def _categories(features: SensitiveFeatures) -> NDArray[np.intp]:
    """Return the categories of each person, shape (people, columns); without any, one group."""
    columns = [column.values for column in features.columns if column.kind == "categorical"]
    return np.column_stack([np.zeros(len(features), dtype=np.intp), *columns])


def _places(
    whitened: Tensor, features: SensitiveFeatures, like: SensitiveFeatures
) -> NDArray[np.float64]:
    """Return whitened rows beside numeric features in units of the training's spread."""
    places = [whitened.cpu().numpy()]
    for column, trained in zip(features.columns, like.columns, strict=True):
        if column.kind == "numeric":
            spread = whitened.shape[-1] ** 0.5 / trained.values.std()
            places.append(spread * column.values[:, None])
    return np.hstack(places)
