"""The modes of a model's data: data and cells are matched with them by label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.arguments import items, to_numpy
from parafair.data.labels import as_labels, find_labels, locate
from parafair.data.modes import has_own_labels, is_labeled
from parafair.data.tensor_data import TensorData
from parafair.errors import missing_column

# Remedies for labels that the model does not have.
REFIT = "fit again with data that has these labels"
OMIT_CELLS = f"leave these cells out, or {REFIT}"
OR_OFFSETS = "; with center=True, unknown='offsets' predicts them from the offsets"
DROP = f"drop these entries, or {REFIT}"


@dataclass(frozen=True, eq=False)
class Axes:
    """Names and labels of the modes of training data.

    Attributes:
        mode: The mode of the people.
        modes: Names of the modes.
        labels: Labels of every mode.
    """

    mode: int
    modes: tuple[str, ...]
    labels: tuple[NDArray[Any], ...]

    @property
    def labeled(self) -> bool:
        """Whether the data had names or labels, not just positions."""
        return is_labeled(self.modes, self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(map(len, self.labels))

    def check_new(self, shape: tuple[int, ...]) -> None:
        """Raise unless data of new people with this shape fits the model."""
        trained, people = self.shape, self.mode
        if len(shape) != len(trained) or any(
            have != want
            for mode, (have, want) in enumerate(zip(shape, trained, strict=True))
            if mode != people
        ):
            expected = ", ".join(map(str, (*trained[:people], "people", *trained[people + 1 :])))
            raise ValueError(
                f"X must have shape ({expected}), got {shape}; pass the training data's indices of "
                "every mode but that of the people, NaN where nothing is known"
            )

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
        assert sparse.indices is not None
        indices = sparse.indices.clone()
        for mode, (trained, name) in enumerate(zip(self.labels, self.modes, strict=True)):
            if mode != self.mode:
                places = torch.from_numpy(locate(data.labels[mode], trained, name, remedy=DROP))
                indices[mode] = places.to(indices.device)[indices[mode]]
                sizes[mode], labels[mode] = shape[mode], trained
        return TensorData(
            sparse.values, indices, tuple(sizes), self.modes, tuple(labels), sparse.absent
        )

    def find_cells(
        self, cells: Any, *, argument: str = "cells", allow_unknown: bool = False
    ) -> Tensor:
        """Return positions of cells, shape (order, count).

        This is the only place that decides what cells mean.

        Args:
            cells: Data, whose observed cells are meant; a data frame of labels; or positions, if
                they cannot be mistaken for labels.
            argument: The name of the argument, for errors.
            allow_unknown: Whether labels that the model does not have get the position -1; by
                default they are an error.
        """
        if isinstance(cells, TensorData):
            return self._cells_of(cells, argument, allow_unknown)
        # `columns` of a PyArrow table are the values.
        names = getattr(cells, "column_names", getattr(cells, "columns", None))
        names = None if names is None else items(f"columns of {argument}", names, "names")
        if names is not None and (self.labeled or set(self.modes) <= set(names)):
            for name in self.modes:
                if name not in names:
                    raise missing_column(argument, name, map(str, names))
            places = [
                self._locate(self._labels_of(cells, mode, argument), mode, allow_unknown)
                for mode in range(len(self.modes))
            ]
            return torch.from_numpy(np.stack(places))
        if has_own_labels(self.labels):
            raise ValueError(
                f"{argument} of a model with labels must be a data frame with one column of labels "
                f"per mode ({', '.join(self.modes)}), or a TensorData, but got "
                f"{type(cells).__name__}: its numbers could be labels or positions. Make it "
                "a data frame of labels, or fit the model to data without labels"
            )
        return self._check_positions(to_numpy(cells, argument), argument)

    def _locate(self, wanted: NDArray[Any], mode: int, allow_unknown: bool) -> NDArray[np.intp]:
        """Return the positions of labels along a mode."""
        own, name = self.labels[mode], self.modes[mode]
        if allow_unknown:
            return find_labels(wanted, own)
        return locate(wanted, own, name, remedy=OMIT_CELLS + OR_OFFSETS)

    def _labels_of(self, cells: Any, mode: int, argument: str) -> NDArray[Any]:
        """Return the labels of a mode from a data frame of cells, which may have none."""
        name = self.modes[mode]
        given = to_numpy(cells[name], argument)
        if given.shape == (0,):
            return self.labels[mode][:0]
        return as_labels(given, f"column {name!r} of {argument}")

    def _cells_of(self, data: TensorData, argument: str, allow_unknown: bool) -> Tensor:
        """Return the observed cells of data, matched by label if both have labels."""
        if not (self.labeled and is_labeled(data.modes, data.labels)):
            shape = self.shape
            if data.shape != shape:
                raise ValueError(
                    f"{argument} must have shape {shape} as in training, got {data.shape}; pass a "
                    "TensorData with the labels of the model to predict other cells"
                )
            return data.cells.cpu()
        if data.modes != self.modes:
            raise ValueError(
                f"{argument} must have the modes {', '.join(self.modes)} of the model, in this "
                f"order, got {', '.join(data.modes)}"
            )
        pairs = enumerate(zip(data.cells.cpu(), data.labels, strict=True))
        return torch.stack(
            [
                torch.from_numpy(self._locate(labels, mode, allow_unknown))[index]
                for mode, (index, labels) in pairs
            ]
        )

    def _check_positions(self, indices: NDArray[Any], argument: str) -> Tensor:
        """Return positions, given as rows, with one column per cell."""
        shape = self.shape
        if indices.ndim != 2 or indices.shape[1] != len(shape) or indices.dtype.kind not in "iu":
            raise ValueError(
                f"{argument} must have one row per cell with {len(shape)} whole numbers, its "
                f"positions in the modes; got {indices.dtype} of shape {indices.shape}"
            )
        outside = ((indices < 0) | (indices >= np.array(shape))).any(1)
        if outside.any():
            first = tuple(indices[outside][0].tolist())
            raise ValueError(
                f"{argument} must lie inside shape {shape}, got {first}; counted from 0"
            )
        # A copy: torch warns of memory that is read-only.
        return torch.from_numpy(np.array(indices.T, dtype=np.int64, order="C"))
