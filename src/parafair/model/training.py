"""What a fitted model stores about its data, to predict and to embed new people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.arguments import one_of
from parafair.data.centering import Offsets
from parafair.data.checks import check_values
from parafair.data.long_table import Absent
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.side_columns import SideColumns
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.errors import ConvergenceWarning, warn
from parafair.losses import Loss, is_squared
from parafair.losses.registry import read_loss, stored_loss
from parafair.model.axes import Axes
from parafair.model.draws import secret_for_new_people, uniforms_of_people
from parafair.model.marks import Marks
from parafair.model.moving import move
from parafair.model.new_rows import NewRows
from parafair.model.out_of_sample import refine_rows
from parafair.model.side import NewSide, SideTraining, observed_of
from parafair.model.unfolding import Unfolding
from parafair.penalties import Penalty
from parafair.solvers.problem import Problem
from parafair.stored import read_record, reading, write_record

# Rows of people, from NumPy or torch.
Rows = TypeVar("Rows", NDArray[Any], Tensor)

TRAINING_FILE = "training.json"
FORMAT = 5


@dataclass(frozen=True, eq=False)
class Training(Axes):
    """Metadata of the training data: labels, offsets, sensitive features.

    Attributes:
        mode: The mode of the people.
        modes: Names of the modes.
        labels: Labels of every mode.
        offsets: Offsets subtracted from the data, or intercepts of a loss with a link; None without
            centering.
        features: Sensitive features of the penalized people; None without any.
        penalized: Their positions; None for everybody.
        entries: Number of observed entries.
        ridge: The ridge.
        loss: The loss.
        non_negative: Whether the rows of people are non-negative.
        unfolding: How the data was unfolded into the matrix that the model sees, which has the
            modes and labels above; None if it was not.
        side: The side information; None without any.
        secret: That of new people, from which their noise follows; the noise of the training
            people does not follow from it. See `parafair.model.draws`.
        marks: Those by which training people are recognized; None if they are not known.
        absent: What entries were that the data, if sparse, did not have: "missing" or "zero".
        rated: The cells that `recommend` leaves out, shape (order, count): the observed ones, or
            the listed ones if absent entries are zeros; None if no entry is missing, and in a
            loaded model and one that several processes have fitted to data in memory. They are
            not saved: which cells people have may reveal their features.
            Those of streamed data are read again.
    """

    offsets: Offsets | None
    features: SensitiveFeatures | None
    penalized: NDArray[np.intp] | None
    entries: int
    ridge: float
    loss: Loss
    secret: str
    non_negative: bool = False
    unfolding: Unfolding | None = None
    absent: Absent = "missing"
    side: SideTraining | None = None
    rated: Tensor | StreamedData | None = None
    marks: Marks | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        offsets: Offsets | None,
        secret: str,
        unfolding: Unfolding | None = None,
        columns: SideColumns | None = None,
        *,
        method: str = "",
        marks: Marks | None = None,
    ) -> Training:
        """Return the metadata of a solved problem.

        Args:
            problem: The problem.
            offsets: Offsets subtracted from the data; None without centering.
            secret: That of the training data; it is not kept.
            unfolding: How the data was unfolded; None if it was not.
            columns: Columns of the side information; None without any.
            method: What tells fits without a strength apart, for the noise of new people.
            marks: Those of the people; None without sensitive features.
        """
        side = None
        if columns is not None and problem.side is not None:
            side = SideTraining.of(problem.side, columns, problem.total)
        return cls(
            mode=problem.mode,
            modes=problem.data.modes,
            labels=problem.labels,
            offsets=offsets,
            features=problem.penalized_features if problem.sensitive else None,
            penalized=problem.penalized_of_all,
            entries=problem.count,
            ridge=problem.ridge,
            loss=problem.loss,
            secret=secret_for_new_people(f"{secret} {method}" if method else secret),
            marks=marks,
            non_negative=problem.mode in problem.non_negative,
            unfolding=unfolding,
            absent=problem.data.absent,
            side=side,
            # Those of the people of this process alone would be misleading.
            rated=_rated(problem.data) if problem.share is None else None,
        )

    @property
    def is_complete(self) -> bool:
        """Whether no entry is missing."""
        return self.entries == prod(self.shape)

    def __repr__(self) -> str:
        sizes = (f"{len(own):,} {name}" for own, name in zip(self.labels, self.modes, strict=True))
        features = "" if self.features is None else f", {self.features!r}"
        return f"Training({' x '.join(sizes)}, {self.entries:,} entries{features})"

    @property
    def axes(self) -> Axes:
        """The modes of the data as it was given."""
        return self if self.unfolding is None else self.unfolding

    def penalized_rows(self, embedding: Rows) -> Rows:
        """Return the rows of the penalized people, in the order of `features`."""
        return embedding if self.penalized is None else embedding[self.penalized]

    def center(self, data: TensorData) -> TensorData:
        """Return new people's data without its offsets; intercepts stay in it."""
        if self.offsets is None or not is_squared(self.loss):
            return data
        return self.offsets.subtract(data)

    def align(self, data: TensorData, shape: tuple[int, ...]) -> TensorData:
        """Return new people's data as the model sees it; see `Axes.align`.

        Lists without zeros that count are an error if those of the training people have them, and
        so are values that the loss cannot take.
        """
        if self.absent == "zero" and data.is_sparse and not data.zeros_count:
            raise ValueError(
                "X is a list whose absent entries are missing, but those of the training data "
                "are zeros; pass TensorData.from_table(..., absent='zero'), or X.to_dense() if "
                "they are missing"
            )
        unfolding = self.unfolding
        if unfolding is None:
            aligned = super().align(data, shape)
        else:
            aligned = unfolding.align(data, unfolding.shape)
        if not is_squared(self.loss):
            check_values(aligned, self.loss)
        return aligned if unfolding is None else unfolding.unfold(aligned)

    def find_cells(
        self, cells: Any, *, argument: str = "cells", allow_unknown: bool = False
    ) -> Tensor:
        """Return positions of cells in the data as the model sees it, shape (order, count)."""
        unfolded = isinstance(cells, TensorData) and cells.modes == self.modes
        if self.unfolding is None or (unfolded and cells.shape == self.shape):
            return super().find_cells(cells, argument=argument, allow_unknown=allow_unknown)
        found = self.unfolding.find_cells(cells, argument=argument, allow_unknown=allow_unknown)
        return self.unfolding.unfold_cells(found)

    def fold(self, tensor: Tensor) -> Tensor:
        """Return values of the model, with people along its mode, in the shape of the data."""
        return tensor if self.unfolding is None else self.unfolding.fold(tensor)

    def embed(
        self,
        data: TensorData,
        factors: Factors,
        *,
        shifts: Tensor | None,
        features: SensitiveFeatures | None,
        penalty: Penalty | None,
        side: NewSide | None = None,
        noise: float = 0.0,
    ) -> Tensor:
        """Return rows of new people; with features, shifted like those of the training people.

        People without observed entries get the mean training row.

        Args:
            data: Their entries, as `align` returns them.
            factors: The factors of the model, as released.
            shifts: The shifts of the training people, as released.
            features: Features of the new people, encoded as in training.
            penalty: The penalty for joint refinement of the rows; None for no refinement.
            side: Their side information; None without any.
            noise: The noise of the model. With some, neighbors are drawn, unless rows are refined.
        """
        centered = self.center(data)
        rows = self.new_rows(centered, factors, side).best()
        counts, trained = observed_of(data, self.mode, side), factors[self.mode]
        if shifts is not None and features is not None and self.features is not None:
            present = (counts > 0).cpu().numpy()
            if features.has_features is not None:
                present &= features.has_features
            people = np.flatnonzero(present)
            theirs = features.take(people)
            rows[people] = move(
                rows[people],
                theirs,
                trained=self.penalized_rows(trained),
                shifts=self.penalized_rows(shifts),
                trained_features=self.features,
                noise=0.0 if penalty is not None else noise,
                drawn=self._draws(data.take(self.mode, people), side and side.take(people)),
            )
            if self.non_negative:
                rows = rows.clamp_min_(0.0)
            if penalty is not None:
                own = self.new_rows(
                    centered.take(self.mode, people), factors, side and side.take(people)
                )
                rows[people] = self._refine(own, rows[people], theirs, penalty)
        rows[counts == 0] = trained.mean(0)
        return rows

    def new_rows(self, data: TensorData, factors: Factors, side: NewSide | None = None) -> NewRows:
        """Return the loss of new people as a function of their rows."""
        return NewRows(
            data, factors, self.mode, self.ridge, self.loss, self.offsets, self.non_negative, side
        )

    def _draws(self, data: TensorData, side: NewSide | None) -> NDArray[np.float64]:
        """Return two numbers from 0 to 1 for each new person, which choose neighbors."""
        key, zeros = f"neighbors {self.secret}", self.absent == "zero"
        table = None if side is None else side.data
        return uniforms_of_people(data, self.mode, 2, key=key, side=table, zeros=zeros)

    def _refine(
        self, own: NewRows, rows: Tensor, features: SensitiveFeatures, penalty: Penalty
    ) -> Tensor:
        """Return rows that minimize the training objective over these people jointly."""
        for column in features.columns:
            if len(np.unique(column.values)) < 2:
                raise ValueError(
                    f"refine=True needs people who differ in {column.name!r}, but all new people "
                    "have the same value; omit refine"
                )
        bound = penalty.bind(features, own.reference)
        refined, converged = refine_rows(own.blocks(), bound, rows)
        if not converged:
            warn(
                f"the refinement of {len(rows)} new people did not converge; audit them before use",
                ConvergenceWarning,
                stacklevel=5,
            )
        return refined

    def write(self, folder: Path, *, keep_exact: bool = False) -> None:
        """Write the metadata into an existing folder; see `FairCP.save`."""
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
            "loss": stored_loss(self.loss),
            "secret": self.secret,
            "marks": self.marks and self.marks.to_record(whole=keep_exact),
            "non_negative": self.non_negative,
            "unfolding": self.unfolding and self.unfolding.to_record(),
            "absent": self.absent,
            "side": self.side and self.side.to_record(),
        }
        write_record(folder / TRAINING_FILE, record)

    @classmethod
    def read(
        cls,
        folder: Path,
        shape: tuple[int, ...] | None = None,
        *,
        classes: Iterable[type] = (),
    ) -> Training:
        """Read metadata that `write` wrote.

        Args:
            folder: The folder of the model.
            shape: The shape of the model, which the labels must have; None if it is not known yet.
            classes: Additional classes that its loss may have.
        """
        file = folder / TRAINING_FILE
        record = read_record(file, file_format=FORMAT)
        with reading(file):
            sizes = tuple(map(int, record.pop("sizes")))
            if shape is not None and sizes != tuple(shape):  # before labels take any memory
                raise ValueError(f"it has the sizes {sizes}, but the model has the shape {shape}")
            labels = record["labels"] or [range(size) for size in sizes]
            offsets, features, marks = record["offsets"], record["features"], record.get("marks")
            penalized, unfolding = record["penalized"], record.get("unfolding")
            record.pop("fingerprint", None)  # of version 0.2.0
            found = replace(
                cls(**record),
                loss=read_loss(record["loss"], classes=classes),
                modes=tuple(record["modes"]),
                labels=tuple(np.asarray(entry) for entry in labels),
                offsets=offsets and _offsets(offsets),
                features=features and SensitiveFeatures.from_list(features),
                penalized=None if penalized is None else np.asarray(penalized, np.intp),
                unfolding=unfolding and Unfolding.from_record(unfolding),
                marks=marks and Marks.from_record(marks),
                side=record.get("side")
                and SideTraining.from_record(record["side"], classes=classes),
            )
            found.check(sizes if shape is None else shape)
            return found

    def check_noise(self, noise: Mapping[int, Tensor]) -> None:
        """Raise unless the noise of a fit is that of the modes of this data."""
        if self.unfolding is not None:
            self.unfolding.check_noise(noise)
        elif not set(noise) <= set(range(len(self.modes))):
            raise ValueError(f"its noise has the modes {sorted(noise)}, but the data {self.modes}")

    def check_unfolding(self, *, expected: bool) -> None:
        """Raise unless the data was unfolded as a model of this class unfolds it, or was not."""
        if (self.unfolding is not None) != expected:
            needed = "needs one" if expected else "has none"
            raise ValueError(f"unfolding is {self.unfolding!r}, but a model of this class {needed}")

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
        one_of("absent", self.absent, get_args(Absent))
        if self.unfolding is not None:
            self.unfolding.check(sizes)
        people, penalized = sizes[self.mode], self.penalized
        if penalized is not None and not ((penalized >= 0) & (penalized < people)).all():
            raise ValueError(f"penalized people must have positions from 0 to {people - 1}")
        expected = people if penalized is None else len(penalized)
        if self.features is not None and len(self.features) != expected:
            raise ValueError(f"it has features of {len(self.features)} people, not of {expected}")


def _rated(data: TensorData) -> Tensor | StreamedData | None:
    """Return the cells that people have; None if these are all."""
    if data.observed == prod(data.shape) and not data.zeros_count:
        return None
    # Cells are the same with offsets and without.
    return StreamedData(data.source) if isinstance(data, StreamedData) else data.cells


def _offsets(record: dict[str, Any]) -> Offsets:
    vectors = record["by_mode"].items()
    by_mode = {int(m): torch.tensor(v, dtype=torch.float64, device="cpu") for m, v in vectors}
    return Offsets(record["mean"], by_mode)
