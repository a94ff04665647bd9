"""What a fitted model stores about its data, to predict and to embed new people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import LOSSES, Block
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import items, to_numpy
from parafair.data.centering import Offsets
from parafair.data.labels import as_labels, locate
from parafair.data.modes import has_own_labels, is_labeled
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.dependence.neighbors import nearest_trained
from parafair.errors import ConvergenceWarning, missing_column, warn
from parafair.model.draws import secret_for_new_people
from parafair.model.out_of_sample import minimize_rows
from parafair.penalties import Penalty
from parafair.solvers.problem import Problem
from parafair.solvers.ridge import ridge_diagonal
from parafair.stored import read_record, reading, write_record

# Rows of people, from NumPy or torch.
Rows = TypeVar("Rows", NDArray[Any], Tensor)

TRAINING_FILE = "training.json"
FORMAT = 5

# Remedies for labels that the model does not have.
REFIT = "fit again with data that has these labels"
OMIT_CELLS = f"leave these cells out, or {REFIT}"
DROP = f"drop these entries, or {REFIT}"


@dataclass(frozen=True, eq=False)
class Training:
    """Metadata of the training data: labels, offsets, sensitive features.

    Attributes:
        mode: The mode of the people.
        modes: Names of the modes.
        labels: Labels of every mode.
        offsets: Offsets subtracted from the data; None without centering.
        features: Sensitive features of the penalized people; None without any.
        penalized: Their positions; None for everybody.
        entries: Number of observed entries.
        ridge: The ridge.
        loss: The loss.
        secret: That of new people, from which their noise follows; the noise of the training
            people does not follow from it. See `parafair.model.draws`.
    """

    mode: int
    modes: tuple[str, ...]
    labels: tuple[NDArray[Any], ...]
    offsets: Offsets | None
    features: SensitiveFeatures | None
    penalized: NDArray[np.intp] | None
    entries: int
    ridge: float
    loss: str
    secret: str

    @classmethod
    def of(cls, problem: Problem, offsets: Offsets | None, secret: str) -> Training:
        """Return the metadata of a solved problem.

        Args:
            problem: The problem.
            offsets: Offsets subtracted from the data; None without centering.
            secret: That of the training data; it is not kept.
        """
        penalized = problem.penalized
        return cls(
            mode=problem.mode,
            modes=problem.data.modes,
            labels=problem.data.labels,
            offsets=offsets,
            features=problem.penalized_features if problem.sensitive else None,
            penalized=None if penalized is None else penalized.cpu().numpy(),
            entries=problem.count,
            ridge=problem.ridge,
            loss=problem.loss,
            secret=secret_for_new_people(secret),
        )

    def __repr__(self) -> str:
        sizes = (f"{len(own):,} {name}" for own, name in zip(self.labels, self.modes, strict=True))
        features = "" if self.features is None else f", {self.features!r}"
        return f"Training({' x '.join(sizes)}, {self.entries:,} entries{features})"

    @property
    def labeled(self) -> bool:
        """Whether the data had names or labels, not just positions."""
        return is_labeled(self.modes, self.labels)

    def penalized_rows(self, embedding: Rows) -> Rows:
        """Return the rows of the penalized people, in the order of `features`."""
        return embedding if self.penalized is None else embedding[self.penalized]

    def align(self, data: TensorData, shape: tuple[int, ...]) -> TensorData:
        """Return new people's data with the other modes in the order of the model's labels.

        Args:
            data: The data; it may lack labels of the other modes, but not have new ones.
            shape: Shape of the model.
        """
        labeled = self.labeled and is_labeled(data.modes, data.labels)
        if not labeled or data.order != len(shape):
            return data
        if set(data.modes) == set(self.modes) and data.modes != self.modes:
            raise ValueError(
                f"X has the modes {', '.join(data.modes)} but the model was trained with "
                f"{', '.join(self.modes)}; pass them in the same order"
            )
        sparse, sizes, labels = data.to_sparse(), list(data.shape), list(data.labels)
        indices = sparse.cells.clone()
        for mode, (trained, name) in enumerate(zip(self.labels, self.modes, strict=True)):
            if mode != self.mode:
                places = torch.from_numpy(locate(data.labels[mode], trained, name, remedy=DROP))
                indices[mode] = places.to(indices.device)[indices[mode]]
                sizes[mode], labels[mode] = shape[mode], trained
        return TensorData(sparse.entries, indices, tuple(sizes), self.modes, tuple(labels))

    def find_cells(self, cells: Any) -> Tensor:
        """Return positions of cells, shape (order, count).

        This is the only place that decides what cells mean.

        Args:
            cells: Data, whose observed cells are meant; a data frame of labels; or positions, if
                they cannot be mistaken for labels.
        """
        if isinstance(cells, TensorData):
            return self._cells_of(cells)
        # `columns` of a PyArrow table are the values.
        names = getattr(cells, "column_names", getattr(cells, "columns", None))
        names = None if names is None else items("columns of cells", names, "names")
        if names is not None and (self.labeled or set(self.modes) <= set(names)):
            for name in self.modes:
                if name not in names:
                    raise missing_column("cells", name, map(str, names))
            places = [
                locate(self._labels_of(cells, name), own, name, remedy=OMIT_CELLS)
                for name, own in zip(self.modes, self.labels, strict=True)
            ]
            return torch.from_numpy(np.stack(places))
        if has_own_labels(self.labels):
            raise ValueError(
                "cells of a model with labels must be a data frame with one column of labels per "
                f"mode ({', '.join(self.modes)}), or a TensorData, but got {type(cells).__name__}: "
                "its numbers could be labels or positions. Make it a data frame of labels, or fit "
                "the model to data without labels"
            )
        return self._check_positions(to_numpy(cells, "cells"))

    def _labels_of(self, cells: Any, name: str) -> NDArray[Any]:
        """Return a column of labels from a data frame of cells."""
        return as_labels(to_numpy(cells[name], "cells"), f"column {name!r} of cells")

    def _cells_of(self, data: TensorData) -> Tensor:
        """Return the observed cells of data, matched by label if both have labels."""
        if not (self.labeled and is_labeled(data.modes, data.labels)):
            shape = tuple(map(len, self.labels))
            if data.shape != shape:
                raise ValueError(
                    f"cells must have shape {shape} as in training, got {data.shape}; pass a "
                    "TensorData with the labels of the model to predict other cells"
                )
            return data.cells.cpu()
        if data.modes != self.modes:
            raise ValueError(
                f"cells must have the modes {', '.join(self.modes)} of the model, in this order, "
                f"got {', '.join(data.modes)}"
            )
        own = zip(data.cells.cpu(), data.labels, self.labels, self.modes, strict=True)
        return torch.stack(
            [
                torch.from_numpy(locate(labels, trained, name, remedy=OMIT_CELLS))[index]
                for index, labels, trained, name in own
            ]
        )

    def _check_positions(self, indices: NDArray[Any]) -> Tensor:
        """Return positions, given as rows, with one column per cell."""
        shape = tuple(map(len, self.labels))
        if indices.ndim != 2 or indices.shape[1] != len(shape) or indices.dtype.kind not in "iu":
            raise ValueError(
                f"cells must have one row per cell with {len(shape)} whole numbers, its positions "
                f"in the modes; got {indices.dtype} of shape {indices.shape}"
            )
        outside = ((indices < 0) | (indices >= np.array(shape))).any(1)
        if outside.any():
            first = tuple(indices[outside][0].tolist())
            raise ValueError(f"cells must lie inside shape {shape}, got {first}; counted from 0")
        # A copy: torch warns of memory that is read-only.
        return torch.from_numpy(np.array(indices.T, dtype=np.int64, order="C"))

    def embed(
        self,
        data: TensorData,
        factors: Factors,
        *,
        shifts: Tensor | None,
        features: SensitiveFeatures | None,
        penalty: Penalty | None,
    ) -> Tensor:
        """Return rows of new people; with features, shifted like those of the training people.

        People without observed entries get the mean training row.

        Args:
            data: Their entries, offsets subtracted.
            factors: The factors of the model, as released.
            shifts: The shifts of the training people, as released.
            features: Features of the new people, encoded as in training.
            penalty: The penalty for joint refinement of the rows; None for no refinement.
        """
        block = self._block(data, factors, norm_squared=0.0, entries=1)
        rows = block.minimizer(QuadraticForm.zero(block.target))[0]
        counts, trained = data.observations.counts(self.mode), factors[self.mode]
        if shifts is not None and features is not None:
            present = (counts > 0).cpu().numpy()
            if features.has_features is not None:
                present &= features.has_features
            people = np.flatnonzero(present)
            theirs = features.take(people)
            rows[people] += self._shifts(rows[people], theirs, trained=trained, shifts=shifts)
            if penalty is not None:
                part = data.take(self.mode, people)
                rows[people] = self._refine(part, factors, rows[people], theirs, penalty)
        rows[counts == 0] = trained.mean(0)
        return rows

    def _block(
        self, data: TensorData, factors: Factors, *, norm_squared: float, entries: int
    ) -> Block:
        """Return loss and ridge as a function of the rows of new people."""
        others = [factor.unsqueeze(0) for factor in factors]
        ridge = ridge_diagonal(others, self.mode, self.mode, self.ridge)
        others[self.mode] = factors[0].new_zeros(1, data.shape[self.mode], factors[0].shape[-1])
        sums = data.observations.sums(others)
        return LOSSES[self.loss](
            sums.target(self.mode),
            sums.gram(self.mode),
            norm_squared=norm_squared,
            entries=entries,
            ridge=ridge,
        )

    def _shifts(
        self, rows: Tensor, features: SensitiveFeatures, *, trained: Tensor, shifts: Tensor
    ) -> Tensor:
        """Return the shifts of the nearest training people, by their noisy plain rows."""
        assert self.features is not None
        trained, shifts = map(self.penalized_rows, (trained, shifts))
        nearest = nearest_trained(
            rows, features, plain=trained - shifts, trained_features=self.features
        )
        return shifts[nearest]

    def _refine(
        self,
        data: TensorData,
        factors: Factors,
        rows: Tensor,
        features: SensitiveFeatures,
        penalty: Penalty,
    ) -> Tensor:
        """Return rows that minimize the training objective over these people jointly."""
        for column in features.columns:
            if len(np.unique(column.values)) < 2:
                raise ValueError(
                    f"refine=True needs people who differ in {column.name!r}, but all new people "
                    "have the same value; omit refine"
                )
        norm = torch.linalg.vector_norm(data.entries, dtype=torch.float64)
        block = self._block(data, factors, norm_squared=float(norm) ** 2, entries=data.observed)
        refined, converged = minimize_rows(block, penalty.bind(features, data.entries), rows)
        if not converged:
            warn(
                f"the refinement of {len(rows)} new people did not converge; audit them before use",
                ConvergenceWarning,
                stacklevel=5,
            )
        return refined

    def write(self, folder: Path) -> None:
        """Write the metadata into an existing folder."""
        offsets, features = self.offsets, self.features
        record = {
            "format": FORMAT,
            "mode": self.mode,
            "modes": self.modes,
            "sizes": [len(labels) for labels in self.labels],
            # Labels that are just positions are not stored.
            "labels": [labels.tolist() for labels in self.labels] if self.labeled else None,
            "offsets": offsets
            and {
                "mean": offsets.mean,
                "by_mode": {str(mode): v.tolist() for mode, v in offsets.by_mode.items()},
            },
            "features": features and features.to_list(),
            "penalized": None if self.penalized is None else self.penalized.tolist(),
            "entries": self.entries,
            "ridge": self.ridge,
            "loss": self.loss,
            "secret": self.secret,
        }
        write_record(folder / TRAINING_FILE, record)

    @classmethod
    def read(cls, folder: Path, shape: tuple[int, ...] | None = None) -> Training:
        """Read metadata that `write` wrote.

        Args:
            folder: The folder of the model.
            shape: The shape of the model, which the labels must have; None if it is not known yet.
        """
        file = folder / TRAINING_FILE
        record = read_record(file, file_format=FORMAT)
        with reading(file):
            sizes = tuple(map(int, record.pop("sizes")))
            if shape is not None and sizes != tuple(shape):  # before labels take any memory
                raise ValueError(f"it has the sizes {sizes}, but the model has the shape {shape}")
            labels = record["labels"] or [range(size) for size in sizes]
            offsets, features = record["offsets"], record["features"]
            penalized = record["penalized"]
            found = replace(
                cls(**record),
                modes=tuple(record["modes"]),
                labels=tuple(np.asarray(entry) for entry in labels),
                offsets=offsets and _offsets(offsets),
                features=features and SensitiveFeatures.from_list(features),
                penalized=None if penalized is None else np.asarray(penalized, np.intp),
            )
            found.check(sizes if shape is None else shape)
            return found

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise unless the metadata fits a model of this shape."""
        sizes = tuple(len(labels) for labels in self.labels)
        if sizes != tuple(shape) or len(self.modes) != len(sizes):
            raise ValueError(
                f"it has {sizes} labels of the modes {self.modes}, but the model has the shape "
                f"{tuple(shape)}"
            )
        if type(self.mode) is not int or not 0 <= self.mode < len(sizes):
            raise ValueError(f"mode must be from 0 to {len(sizes) - 1}, got {self.mode!r}")
        for name in ("entries", "ridge"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a number of at least 0, got {value!r}")
        people, penalized = sizes[self.mode], self.penalized
        if penalized is not None and not ((penalized >= 0) & (penalized < people)).all():
            raise ValueError(f"penalized people must have positions from 0 to {people - 1}")
        expected = people if penalized is None else len(penalized)
        if self.features is not None and len(self.features) != expected:
            raise ValueError(f"it has features of {len(self.features)} people, not of {expected}")


def _offsets(record: dict[str, Any]) -> Offsets:
    vectors = record["by_mode"].items()
    by_mode = {int(m): torch.tensor(v, dtype=torch.float64, device="cpu") for m, v in vectors}
    return Offsets(record["mean"], by_mode)
