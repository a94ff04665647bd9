"""New people who follow a map of the training people: the same quantile of their group.

The method "sliced-transport" keeps such a map of least-squares rows. A learned encoder needs none
to embed people whose group is not known. Of those whose group is known, a map of the released rows
hides what the encoder has left.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.neighbors import categories_of
from parafair.dependence.quantile_map import QuantileMap
from parafair.dependence.whitening import spread_basis
from parafair.encoders.base import Encoder
from parafair.model.methods import resolve_method
from parafair.model.record import RECORD_FILE, Record
from parafair.model.training import Training
from parafair.penalties.postprocessing import MappedPostprocessing
from parafair.penalties.transport import MOST_GROUPS
from parafair.solvers.result import FACTORS_FILE, Fit
from parafair.stored import reading


class MappingCP:
    """The part of a fitted model that moves new people by a map."""

    cp_: CPTensor
    fit_: Fit
    record_: Record
    training_: Training
    encoder_: Encoder | None
    _map: QuantileMap | None = None

    def _map_of(self, features: SensitiveFeatures | None) -> QuantileMap | None:
        """Return the map that moves the encoder's rows of people with these features, if any.

        It is the map of the released rows: whoever has these learns nothing from it.
        """
        training, known = self.training_, self.training_.features
        learned = self.encoder_ is not None and self.fit_.shifts is not None
        if not learned or features is None or known is None or not has_map(known):
            return None
        if self._map is None:
            released = training.penalized_rows(self.cp_.factors[training.mode])
            self._map = map_of_released(released, known, seed=self.record_.seed)
        return self._map

    def _move_by_map(
        self, rows: Tensor, data: TensorData, features: SensitiveFeatures, moves: QuantileMap
    ) -> Tensor:
        """Return rows of new people, of whom those with features and entries are moved."""
        present = data.observed_per(self.training_.mode) > 0
        if features.has_features is not None:
            present &= features.has_features
        people, moved = np.flatnonzero(present), rows.clone()
        assert self.training_.features is not None
        theirs = features.take(people)
        moved[people] = move_by_map(rows[people], theirs, moves, self.training_.features)
        return moved


def check_parts(folder: Path, fit: Fit, record: Record, training: Training) -> None:
    """Raise unless the parts of a stored model belong together; the message names the file."""
    with reading(folder / RECORD_FILE):
        training.check_noise(fit.noise)
        method = resolve_method(record.params["method"], None)
    moves, features = fit.moves, training.features
    with reading(folder / FACTORS_FILE):
        if isinstance(method, MappedPostprocessing) != (moves is not None):
            has = "no map" if moves is None else "a map"
            raise ValueError(f"it has {has}, but the method is {record.params['method']!r}")
        known = 0 if features is None else len(np.unique(categories_of(features), axis=0))
        if moves is not None and len(moves.shares) != known:
            raise ValueError(f"its map has {len(moves.shares)} groups, but the people {known}")


def has_map(features: SensitiveFeatures) -> bool:
    """Tell whether the groups of training people are such that a map can move them."""
    if any(column.kind == "numeric" for column in features.columns):
        return False
    return len(features.joint(1).categories) <= MOST_GROUPS


def map_of_released(rows: Tensor, features: SensitiveFeatures, *, seed: int) -> QuantileMap:
    """Return the map that moves released rows of training people to one distribution.

    It follows from the released rows, so whoever has these learns nothing from it.

    Args:
        rows: The released rows of people with features, shape (n, rank).
        features: Their features, which have a map.
        seed: The seed of the rotations.
    """
    groups = torch.from_numpy(features.joint(1).values).to(rows.device)
    basis = torch.linalg.pinv(spread_basis(rows).double())
    return QuantileMap.of(rows, groups, basis, seed=seed)


def move_by_map(
    rows: Tensor, features: SensitiveFeatures, moves: QuantileMap, trained: SensitiveFeatures
) -> Tensor:
    """Return rows of new people, moved by a map as the training people were.

    Args:
        rows: Least-squares rows of the new people, shape (people, rank).
        features: Their features, encoded as in training.
        moves: The map.
        trained: Features of the training people, whose combinations are the groups of the map.
    """
    theirs = categories_of(trained)
    known, sizes = np.unique(theirs, axis=0, return_counts=True)
    own, which = np.unique(categories_of(features), axis=0, return_inverse=True)
    agreeing = (own[:, None] == known[None]).sum(2)
    # Of those that have as many categories in common, the largest.
    nearest = np.lexsort((np.broadcast_to(sizes, agreeing.shape), agreeing), axis=1)[:, -1]
    groups = torch.from_numpy(nearest[which.reshape(-1)]).to(rows.device)
    return moves.move(rows, groups)
