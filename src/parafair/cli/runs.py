"""Runs: the folder of a fitted model, with tables that people can read."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from parafair.algebra.tucker_tensor import TuckerTensor
from parafair.audits.evaluation import Evaluation, evaluate_predictions
from parafair.cli.inputs import Inputs
from parafair.cli.options import (
    MOST_CERTIFIED,
    TABLE_FORMATS,
    FittedOptions,
    RunOptions,
    TableOptions,
)
from parafair.cli.shell import echo
from parafair.data.centering import Offsets
from parafair.data.frames import check_parquet
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.splits import Split
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice
from parafair.guarantees.certifying import certify
from parafair.model.estimator import FairCP
from parafair.model.noise import warn_of_exact
from parafair.model.notices import warn_of_contents
from parafair.model.tucker import FairTucker
from parafair.storage import check_new_folder, new_file, new_folder, write_json

EVALUATION_FILE, TUNING_FILE = "evaluation.json", "tuning.json"

# What a formula may begin with: signs, their wide forms, and what moves the rest to another cell.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Errors of held-out entries.

    Attributes:
        source: Which entries these are, as values for JSON.
        model: Errors of the model.
        baseline: Errors of the mean and the average deviation of each index of the other modes.
    """

    source: Mapping[str, Any]
    model: Evaluation
    baseline: Evaluation

    @classmethod
    def of(
        cls,
        source: Mapping[str, Any],
        model: FairCP | FairTucker,
        split: Split[TensorData],
        features: SensitiveFeatures | None,
    ) -> HeldOut:
        """Predict the held-out entries of a split."""
        mode, test = model.training_.axes.mode, split.test
        guess = Offsets.of(split.train, mode).at(test.cells).numpy()
        return cls(
            source,
            evaluate_predictions(test, model.predict(test), sensitive_features=features, mode=mode),
            evaluate_predictions(test, guess, sensitive_features=features, mode=mode),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        scores = {"scores": self.model.to_list(), "baseline": self.baseline.to_list()}
        return {**self.source, **scores}

    def table(self) -> Table:
        """Return a table of the errors, beside those of a prediction without people."""
        table = Table(box=None, title="Errors of held-out entries", title_justify="left")
        for name in ("people", "entries", "RMSE", "MAE", "RMSE without people"):
            table.add_column(name, justify="left" if name == "people" else "right")
        for score in self.model.scores:
            if score.measure == "rmse":
                group, feature = score.group, score.feature
                mae = self.model.value("mae", group, feature=feature)
                without = self.baseline.value("rmse", group, feature=feature)
                name = escape(f"{feature}: {group}" if feature else group)
                numbers = [f"{number:.4g}" for number in (score.value, mae, without)]
                table.add_row(name, f"{score.count:,}", *numbers)
        return table


def check_result(result: RunOptions) -> None:
    """Raise if a run cannot be written; call it before any work is done."""
    check_new_folder(result.out, overwrite=result.force)
    check_table_format("--format", result.table_format)


def check_table_format(option: str, name: str) -> None:
    """Raise unless tables of this format can be written."""
    if name not in TABLE_FORMATS:
        raise unknown_choice(option, name, TABLE_FORMATS)
    if name == "parquet":
        check_parquet(f"{option} parquet")


def write_run(
    result: RunOptions,
    model: FairCP | FairTucker,
    inputs: Inputs,
    *,
    held_out: HeldOut | None = None,
    tuning: dict[str, Any] | None = None,
) -> None:
    """Write a run, whole or not at all: the model, its factors as tables, and records.

    A model with `certificate_` is written with it.

    Args:
        result: Where to write it.
        model: The fitted model.
        inputs: Where its data came from.
        held_out: Errors of held-out entries.
        tuning: What its settings were chosen from.
    """
    axes, side = model.training_.axes, model.training_.side
    names = _file_names(axes.modes)
    names[axes.mode] = "embedding"
    keep_exact = isinstance(result, FittedOptions) and result.keep_exact
    with new_folder(result.out, overwrite=result.force) as folder:
        model.write(folder, keep_exact=keep_exact)
        inputs.write(folder)
        found = model.tucker_ if isinstance(model, FairTucker) else model.cp_
        tables = {
            name: rows_as_table(factor.cpu().numpy(), axes.labels[mode], axes.modes[mode])
            for mode, (name, factor) in enumerate(zip(names, found.factors, strict=True))
        }
        if isinstance(model, FairTucker):
            tables["core"] = _core_as_table(model.tucker_, axes.modes)
        if side is not None:
            tables["side_factor"] = rows_as_table(model.side_factor_, side.columns.labels, "column")
        for name, table in tables.items():
            path = folder / f"{name}.{result.table_format}"
            write_table(table, path, raw_labels=result.raw_labels)
        if held_out is not None:
            write_json(folder / EVALUATION_FILE, held_out.to_dict())
        if tuning is not None:
            write_json(folder / TUNING_FILE, tuning)
    if keep_exact:
        warn_of_exact(model.fit_, stacklevel=2)
    warn_of_contents(model.fit_, stacklevel=2)


def certify_run(result: FittedOptions, model: FairCP | FairTucker) -> bool:
    """Certify a model with noise before it is written without exact rows; say why not if not.

    Returns:
        Whether it was interrupted.
    """
    people = len(model.embedding_)
    if not model.fit_.noise or result.certify is False:
        return False
    sampled = result.certify is None and people > MOST_CERTIFIED
    if sampled:
        echo(
            f"certified by samples of {MOST_CERTIFIED:,} people; --certify takes all {people:,}, "
            "which takes a while"
        )
    try:
        certify(model, max_people=MOST_CERTIFIED if sampled else None)
    except ValueError as error:  # the fit is worth keeping
        echo(f"not certified: {error}")
    except KeyboardInterrupt:  # and it is finished
        echo("interrupted: the fit is not certified")
        return True
    return False


def rows_as_table(rows: NDArray[Any], labels: NDArray[Any], mode: str) -> pandas.DataFrame:
    """Return rows of a factor with their labels."""
    names = [f"component_{r}" for r in range(rows.shape[1])]
    table = pandas.DataFrame(rows, columns=names)
    table.insert(0, mode, labels)
    return table


def _core_as_table(tucker: TuckerTensor, modes: tuple[str, ...]) -> pandas.DataFrame:
    """Return the core of a Tucker decomposition: a column of each factor, and their weight."""
    core = tucker.core.cpu().numpy()
    places = np.indices(core.shape).reshape(core.ndim, -1)
    columns = {
        name: [f"component_{r}" for r in own] for name, own in zip(modes, places, strict=True)
    }
    return pandas.DataFrame({**columns, "weight": core.ravel()})


def write_table_file(table: pandas.DataFrame, result: TableOptions) -> None:
    """Write the table of a command, whole or not at all."""
    with new_file(result.out, overwrite=result.force) as file:
        write_table(table, file, raw_labels=result.raw_labels)


def write_table(table: pandas.DataFrame, path: Path, *, raw_labels: bool = False) -> None:
    """Write a table as CSV or Parquet.

    Args:
        table: The table.
        path: The file, .csv or .parquet.
        raw_labels: Whether text in CSV stays as it is even if a spreadsheet would run it.
    """
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
        return
    texts = table.select_dtypes(exclude="number")
    # The writer quotes text with a line feed, but not text with a carriage return alone.
    returns = any("\r" in str(text) for text in chain(table.columns, texts.to_numpy().flat))
    if not raw_labels:
        table = table.copy()
        for name in texts.columns:
            table[name] = texts[name].map(_inert, na_action="ignore")
        table = table.rename(columns=_inert)
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    table.to_csv(path, index=False, quoting=quoting)


def _inert(value: Any) -> Any:
    """Return text that a spreadsheet would read as a formula with an apostrophe in front."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    return (
        value if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", value, re.I) else f"'{value}"
    )


def _file_names(modes: tuple[str, ...]) -> list[str]:
    """Return another name for the file of each mode, its number where its own cannot be one."""
    names: list[str] = []
    for mode, label in enumerate(modes):
        name = f"factor_{label}"
        if not re.fullmatch(r"[\w. -]{1,100}", name):
            name = f"factor_{mode}"
        # Some file systems do not distinguish upper and lower case.
        while name.casefold() in {taken.casefold() for taken in names}:
            name += "_"
        names.append(name)
    return names
