"""New people: where their entries put them, moved as the people most like them were.

A penalty moves the people of the training from the rows that fit their entries best to others. A
new person is moved as one of the training was: the one with the same sensitive features whose
entries put her nearest. So people may come one by one.

Moves of others hide less than one's own. Where there are many new people with the invariant
criterion, they go on from there and minimize what the training did, their squared error plus the
criterion, among themselves. The people of the training must stay out of it: pressed below what
chance leaves, their criterion shows little but holes, to which all new people of a kind would go.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from parafair.algebra.least_squares import block_of
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import Standardized
from parafair.penalties import BoundPenalty
from parafair.solvers.majorize import Iterate, majorize

# Fewer new people would be matched one by one if they settled among themselves.
MANY = 200
MOST_STEPS = 500
# They are settled when the objective falls by less than this share of itself in a step.
TOLERANCE = 1e-4


def fit_rows(target: Tensor, gram: Tensor) -> Tensor:
    """Return the rows that fit best, shape (people, rank).

    Args:
        target: ``M`` of the people, shape (people, rank).
        gram: ``G``, shape (rank, rank), or (people, rank, rank) for each person.
    """
    block = block_of(target[None], gram[None], norm_squared=0.0, entries=1, ridge=None)
    return block.minimizer(QuadraticForm.zero(target))[0]


def nearest_trained(
    rows: Tensor,
    features: SensitiveFeatures,
    *,
    plain: Tensor,
    trained_features: SensitiveFeatures,
) -> NDArray[np.intp]:
    """Return for each new person the position of the nearest of the training.

    Categories must agree, in as many columns as in anybody's. Distances are between whitened rows,
    in which numeric features count as much as the rows do.

    Args:
        rows: The rows that fit new people best, shape (people, rank).
        features: Their features, in terms of those of the training.
        plain: The rows that fit the people of the training best, shape (n, rank).
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


def can_settle(features: SensitiveFeatures) -> bool:
    """Tell whether people are many enough, and differ enough, to be hidden among themselves."""
    varied = all(len(np.unique(column.values)) > 1 for column in features.columns)
    return varied and len(features) >= MANY


def refine(
    rows: Tensor,
    *,
    target: Tensor,
    gram: Tensor,
    norm_squared: float,
    entries: int,
    term: BoundPenalty,
) -> tuple[Tensor, bool]:
    """Return rows that minimize the squared error and a penalty, and whether they got there.

    Args:
        rows: Where to begin, shape (people, rank).
        target: ``M``, shape (people, rank).
        gram: ``G``, shape (rank, rank), or (people, rank, rank) for each person.
        norm_squared: The squares of the people's entries.
        entries: Their number.
        term: The penalty.
    """
    block = block_of(
        target[None], gram[None], norm_squared=norm_squared, entries=entries, ridge=None
    )
    point = Iterate(rows[None], *term.value_and_gradient(rows[None]))
    # Moving one of n people by 1 changes about this much.
    curvature = point.value / len(rows)
    after = block.value(point.factor) + point.value
    for _ in range(MOST_STEPS):
        before = after
        point, curvature, accepted = majorize(block, term, point, curvature)
        after = block.value(point.factor) + point.value
        if not accepted or before - after <= TOLERANCE * after:
            return point.factor[0], True
        curvature = curvature / 2
    return point.factor[0], False


def _categories(features: SensitiveFeatures) -> NDArray[np.intp]:
    """Return the categories of each person, shape (people, columns); none of them is one group."""
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
