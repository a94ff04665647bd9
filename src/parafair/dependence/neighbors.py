"""The nearest people with the same sensitive features."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import Standardized


def nearest_trained(
    rows: Tensor,
    features: SensitiveFeatures,
    *,
    plain: Tensor,
    trained_features: SensitiveFeatures,
) -> NDArray[np.intp]:
    """Return the position of the nearest training person for each new person.

    Only training people with the most matching categories are candidates. Distances are between
    whitened rows, extended by numeric features, each with the same weight as the row.

    Args:
        rows: Least-squares rows of the new people, shape (people, rank).
        features: Their features, encoded as in training.
        plain: Least-squares rows of the training people, or nearly, shape (n, rank).
        trained_features: Features of the training people.
    """
    from sklearn.neighbors import NearestNeighbors  # here, because few fits need it

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


def _categories(features: SensitiveFeatures) -> NDArray[np.intp]:
    """Return the categories of each person, shape (people, columns), after a constant column."""
    columns = [column.values for column in features.columns if column.kind == "categorical"]
    return np.column_stack([np.zeros(len(features), dtype=np.intp), *columns])


def _places(
    whitened: Tensor, features: SensitiveFeatures, like: SensitiveFeatures
) -> NDArray[np.float64]:
    """Return whitened rows extended by numeric features, scaled by their training deviation."""
    places = [whitened.cpu().numpy()]
    for column, trained in zip(features.columns, like.columns, strict=True):
        if column.kind == "numeric":
            spread = whitened.shape[-1] ** 0.5 / trained.values.std()
            places.append(spread * column.values[:, None])
    return np.hstack(places)
