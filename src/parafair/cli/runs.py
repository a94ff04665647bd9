"""Runs: the folder of a fitted model, with tables that people can read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from parafair.audits.evaluation import Evaluation, evaluate_predictions
from parafair.cli.people import People
from parafair.cli.tensors import ARRAYS, Source
from parafair.data.centering import Offsets
from parafair.data.frames import read_table
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.model.estimator import FairCP
from parafair.model.training import MODEL_FILE, Training
from parafair.storage import new_file, new_folder, read_tensor, write_json

EVALUATION_FILE = "evaluation.json"
TABLE_FORMATS = ("csv", "parquet")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Errors of held-out entries.

    Attributes:
        share: Share of the observed entries that was held out.
        model: Errors of the model.
        baseline: Errors of the mean and what each index of the other modes adds to it.
    """

    share: float
    model: Evaluation
    baseline: Evaluation

    @classmethod
    def of(
        cls,
        share: float,
        model: FairCP,
        train: TensorData,
        test: TensorData,
        features: SensitiveFeatures | None,
    ) -> HeldOut:
        """Predict the entries that a model has not seen."""
        mode = model.training_.mode
        guess = Offsets.of(train, mode).at(test.cells).numpy()
        return cls(
            share,
            evaluate_predictions(
                test, model.predict(test.cells.T.numpy()), sensitive_features=features, mode=mode
            ),
            evaluate_predictions(test, guess, sensitive_features=features, mode=mode),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        scores = {"scores": self.model.to_list(), "baseline": self.baseline.to_list()}
        return {"test": self.share, **scores}


def describe_source(source: Source, people: People | None, test: float | None) -> dict[str, Any]:
    """Return where the data of a run came from; later commands read it in the same way."""
    read: dict[str, Any] = {"sensitive": None, "key": None, "missing": None}
    if people is not None:
        read = {"sensitive": str(people.path), "key": people.key, "missing": people.missing}
    return {**source.to_dict(), **read, "test": test}


def check_table_format(option: str, name: str) -> None:
    """Raise unless tables of this format can be written."""
    if name not in TABLE_FORMATS:
        raise unknown_choice(option, name, TABLE_FORMATS)
    if name == "parquet" and find_spec("pyarrow") is None:
        raise ValueError(
            f"{option} parquet needs the package 'pyarrow'; install it with "
            "pip install 'parafair[parquet]', or use csv"
        )


def write_run(
    out: Path,
    model: FairCP,
    inputs: Mapping[str, Any] | None,
    held_out: HeldOut | None,
    *,
    table_format: str,
    force: bool,
) -> None:
    """Write a run, whole or not at all: the model, its factors as tables, held-out errors."""
    if inputs is not None:
        model.fit_ = replace(model.fit_, settings={**model.fit_.settings, "inputs": dict(inputs)})
    training, shape = model.training_, model.cp_.shape
    modes = training.modes or tuple(f"mode_{mode}" for mode in range(len(shape)))
    labels = training.labels or tuple(np.arange(size) for size in shape)
    names = _file_names(modes)
    names[training.mode] = "embedding"
    with new_folder(out, overwrite=force) as folder:
        model.write(folder)
        for mode, factor in enumerate(model.cp_.factors):
            rows = factor.cpu().numpy()
            table = rows_as_table(rows, labels[mode], modes[mode])
            _write_table(table, folder / f"{names[mode]}.{table_format}")
        if held_out is not None:
            write_json(folder / EVALUATION_FILE, held_out.to_dict())


def rows_as_table(rows: NDArray[Any], labels: NDArray[Any], mode: str) -> pandas.DataFrame:
    """Return rows of a factor with their labels."""
    names = [f"component_{r}" for r in range(rows.shape[1])]
    table = pandas.DataFrame(rows, columns=names)
    table.insert(0, mode, labels)
    return table


def write_table_file(table: pandas.DataFrame, path: Path, *, force: bool) -> None:
    """Write a table, whole or not at all."""
    with new_file(path, overwrite=force) as file:
        _write_table(table, file)


def _write_table(table: pandas.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)


def _file_names(modes: tuple[str, ...]) -> list[str]:
    """Return a name for the file of each mode; those that cannot be one get their number."""
    names = [f"factor_{name}" for name in modes]
    return [
        name if re.fullmatch(r"[\w. -]{1,100}", name) else f"factor_{mode}"
        for mode, name in enumerate(names)
    ]


@dataclass(frozen=True, eq=False)
class Embedding:
    """An embedding to audit.

    Attributes:
        rows: One row per person.
        labels: Who they are; None if that is not known.
        mode: Name of their mode; None if they have no labels but their positions.
        key: The column of a table of people that had the labels; None if that is not known.
        penalized: Positions of those whom the criterion of the run examined; None for everybody.
    """

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    mode: str | None = None
    key: str | None = None
    penalized: NDArray[np.intp] | None = None


def read_embedding(path: Path, key: str | None) -> Embedding:
    """Read an embedding: of a run, or of a table or an array of rows."""
    if (path / MODEL_FILE).is_file():
        return _embedding_of(FairCP.load(path))
    if path.is_dir():
        found = [path / f"embedding.{name}" for name in TABLE_FORMATS]
        path = next((file for file in found if file.exists()), found[0])
    if path.suffix in (".npy", ".npz"):
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


def _embedding_of(model: FairCP) -> Embedding:
    """Return the embedding of a run, with what tells its people apart."""
    training: Training = model.training_
    if training.labels is None or training.modes is None:
        return Embedding(model.embedding_, None, penalized=training.penalized)
    labels, mode = training.labels[training.mode], training.modes[training.mode]
    inputs = model.fit_.settings.get("inputs")
    if inputs is None:  # saved from Python
        unnamed = mode == f"mode_{training.mode}"
        key, positions = None, unnamed and np.array_equal(labels, np.arange(len(labels)))
    else:
        key = inputs["key"]
        positions = key is None and Path(inputs["tensor"]).suffix in ARRAYS
    return Embedding(model.embedding_, labels, None if positions else mode, key, training.penalized)
