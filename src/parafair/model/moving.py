"""Where new people move: like a training person near them, with the same sensitive features.

The neighbor is drawn among the nearest. If everybody moved like the nearest person, new people with
equal entries would all follow the same one, whose features anybody could then read from their rows.

Where many people have equal entries, a new person's own position is no different from the
neighbor's, and the moved row is a copy of the neighbor's row. How the groups of the training people
happen to lie there would be repeated by the new people, so that attackers who learned it recognize
them. Such a copy moves on to a row near it, of a training person with any features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.neighbors import near_rows, near_trained, nearest_trained

# A new person is a copy of a neighbor who is nearer than this many times the noise.
COPY = 1.5


def move(
    rows: Tensor,
    features: SensitiveFeatures,
    *,
    trained: Tensor,
    shifts: Tensor,
    trained_features: SensitiveFeatures,
    noise: float,
    drawn: NDArray[np.float64],
) -> Tensor:
    """Return rows of new people, moved like training people are.

    Without noise every copy can be recognized; new people then move like the nearest person, and
    training people get their own rows again.

    Args:
        rows: Least-squares rows of the new people, shape (people, rank).
        features: Their features, encoded as in training.
        trained: Rows of the training people, as released, shape (n, rank).
        shifts: How they were moved, with noise, shape (n, rank).
        trained_features: Their features.
        noise: The noise of the model, as a share of the spread of the rows.
        drawn: Two numbers from 0 to 1 for each new person, shape (people, 2).
    """
    plain = trained - shifts
    if not noise:
        nearest = nearest_trained(rows, features, plain=plain, trained_features=trained_features)
        return rows + shifts[nearest]
    near, distances = near_trained(
        rows, features, plain=plain, trained_features=trained_features, drawn=drawn[:, 0]
    )
    moved = rows + shifts[near]
    copies = np.flatnonzero(distances < COPY * noise * rows.shape[-1] ** 0.5)
    if len(copies):
        moved[copies] = near_rows(trained, near[copies], drawn=drawn[copies, 1])
    return moved
