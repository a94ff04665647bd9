"""Training people near new people: with the same sensitive features, and of any."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import Standardized

# One of so many nearest candidates is drawn, and of at most this share of them; the same for rows.
NEAR, NEAR_ROWS, NEAR_SHARE = 30, 10, 0.2


def near_trained(
    rows: Tensor,
    features: SensitiveFeatures,
    *,
    plain: Tensor,
    trained_features: SensitiveFeatures,
    drawn: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the position of a near training person for each new person, and the distance.

    Candidates and distances are those of `nearest_trained`.

    Args:
        rows: Least-squares rows of the new people, shape (people, rank).
        features: Their features, encoded as in training.
        plain: Least-squares rows of the training people, or nearly, shape (n, rank).
        trained_features: Features of the training people.
        drawn: A number from 0 to 1 for each new person, which chooses among the nearest.
    """
    found = np.empty(len(drawn), dtype=np.intp)
    distances = np.empty(len(drawn))
    there, here, groups = _candidates(rows, features, plain, trained_features)
    for people, same in groups:
        chosen, distances[people] = _draw_near(there[same], here[people], drawn[people], most=NEAR)
        found[people] = same[chosen]
    return found, distances


def near_rows(rows: Tensor, chosen: NDArray[np.intp], *, drawn: NDArray[np.float64]) -> Tensor:
    """Return for each chosen row one of the rows that are near it, of people with any features.

    Args:
        rows: Rows of the training people, shape (n, rank).
        chosen: Positions of rows, shape (people,).
        drawn: A number from 0 to 1 for each of them, which chooses among the nearest.
    """
    places = Standardized.of(rows).whitened.cpu().numpy()
    return rows[_draw_near(places, places[chosen], drawn, most=NEAR_ROWS)[0]]


def _draw_near(
    there: NDArray[np.float64], here: NDArray[np.float64], drawn: NDArray[np.float64], *, most: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return which of the near places was drawn for each place, and how far it is."""
    from sklearn.neighbors import NearestNeighbors  # here, because few fits need it

    count = max(1, min(most, int(NEAR_SHARE * len(there))))
    distances, near = NearestNeighbors(n_neighbors=count).fit(there).kneighbors(here)
    each, which = np.arange(len(here)), (drawn * count).astype(np.intp)
    return near[each, which], distances[each, which]


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

    there, here, groups = _candidates(rows, features, plain, trained_features)
    found = np.empty(len(here), dtype=np.intp)
    for people, same in groups:
        search = NearestNeighbors(n_neighbors=1).fit(there[same])
        found[people] = same[search.kneighbors(here[people], return_distance=False)[:, 0]]
    return found


def _candidates(
    rows: Tensor,
    features: SensitiveFeatures,
    plain: Tensor,
    trained_features: SensitiveFeatures,
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    list[tuple[NDArray[np.intp], NDArray[np.intp]]],
]:
    """Return places of training and of new people, and for each group of these its candidates."""
    standard = Standardized.of(plain)
    mean = plain.double().mean(0)
    whitened = torch.linalg.solve(standard.basis, rows.double() - mean, left=False)
    there = _places(standard.whitened, trained_features, trained_features)
    here = _places(whitened, features, trained_features)
    theirs, own = categories_of(trained_features), categories_of(features)
    groups = []
    for group in np.unique(own, axis=0):
        agreeing = (theirs == group).sum(1)
        same = np.flatnonzero(agreeing == agreeing.max())
        groups.append((np.flatnonzero((own == group).all(1)), same))
    return there, here, groups


def categories_of(features: SensitiveFeatures) -> NDArray[np.intp]:
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
