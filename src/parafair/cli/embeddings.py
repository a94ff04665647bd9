"""Embeddings to audit: of a run, or of a table or an array of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from parafair.arguments import has_ending
from parafair.cli.inputs import Inputs
from parafair.cli.tensors import ARRAYS
from parafair.data.frames import read_table
from parafair.errors import unknown_choice
from parafair.model.estimator import FairCP
from parafair.model.tucker import FairTucker, load_model
from parafair.storage import read_tensor
from parafair.temporaries import is_there


@dataclass(frozen=True, eq=False)
class Embedding:
    """An embedding to audit.

    Attributes:
        rows: One row per person.
        labels: Labels of the people; None if they have positions only.
        mode: Name of their mode; None if it is not known.
        penalized: Positions of the people in the criterion of the run; None for everybody.
        inputs: Where the data of the run came from.
    """

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    mode: str | None = None
    penalized: NDArray[np.intp] | None = None
    inputs: Inputs = field(default_factory=Inputs)

    @property
    def chosen(self) -> NDArray[np.intp]:
        """Positions of the people to audit."""
        return np.arange(len(self.rows)) if self.penalized is None else self.penalized


def read_embedding(path: Path, key: str | None) -> Embedding:
    """Read an embedding.

    Args:
        path: A run, or a file of rows.
        key: The column of a table of rows with the labels of the people; None if it has none.
    """
    if is_there(path) and path.is_dir():
        return _embedding_of(load_model(path), Inputs.read(path))
    if has_ending(path, ARRAYS):
        if key is not None:
            raise ValueError(f"--key {key} needs a table with that column, but {path} is an array")
        return Embedding(read_tensor(path), None)
    table = read_table(path, labels=[] if key is None else [key])
    if key is not None and key not in table.columns:
        raise unknown_choice("--key", key, map(str, table.columns))
    components = [name for name in table.columns if str(name).startswith("component_")]
    rows = table[components] if components else table.drop(columns=key or [])
    text = [str(name) for name in rows.columns if not pandas.api.types.is_numeric_dtype(rows[name])]
    if text:
        raise ValueError(
            f"{path} has columns that are not numbers: {', '.join(text[:5])}; name the column of "
            "labels with --key, or call the columns of the embedding component_0, component_1, ..."
        )
    return Embedding(rows.to_numpy(), None if key is None else table[key].to_numpy())


def _embedding_of(model: FairCP | FairTucker, inputs: Inputs) -> Embedding:
    """Return the embedding of a run, with the labels of its people if they have any."""
    training, axes, rows = model.training_, model.training_.axes, model.embedding_
    labels, mode = axes.labels[axes.mode], axes.modes[axes.mode]
    if inputs.tensor is None:  # saved from Python
        unnamed = mode == f"mode_{axes.mode}"
        labeled = not (unnamed and np.array_equal(labels, np.arange(len(labels))))
    else:
        labeled = inputs.key is not None or not has_ending(Path(inputs.tensor), ARRAYS)
    return Embedding(rows, labels, mode if labeled else None, training.penalized, inputs)
