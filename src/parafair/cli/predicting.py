"""The commands `parafair predict` and `parafair transform`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from parafair.cli.people import People
from parafair.cli.runs import check_table_format, rows_as_table, write_table_file
from parafair.cli.shell import (
    PEOPLE,
    RESULT,
    Duplicates,
    Force,
    Key,
    Missing,
    Modes,
    Value,
    app,
    echo,
    option,
    readable_errors,
)
from parafair.cli.tensors import Source, error_prefix
from parafair.data.frames import read_table
from parafair.data.labels import preview
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import missing_column
from parafair.model.estimator import FairCP
from parafair.model.training import Training
from parafair.storage import check_new_file

Run = Annotated[Path, typer.Argument(help="A folder that `parafair fit` wrote.")]
Out = Annotated[Path, option(RESULT, "Table to write, .csv or .parquet.")]


@app.command()
def predict(
    run: Run,
    cells: Annotated[
        Path, typer.Argument(help="Table (.csv, .parquet) with a column of labels for each mode.")
    ],
    out: Out,
    column: Annotated[str, option(RESULT, "What to call the predictions.")] = "prediction",
    force: Force = False,
) -> None:
    """Predict any cells, those that were missing too.

    Writes the table again with one more column. Labels that the model does not know are an error.
    """
    with readable_errors():
        _check_out(out, force=force)
        model = FairCP.load(run)
        modes = model.training_.modes or tuple(
            f"mode_{mode}" for mode in range(len(model.cp_.shape))
        )
        table = read_table(cells, labels=modes)
        for name in modes:
            if name not in table.columns:
                raise missing_column(cells, name, map(str, table.columns))
        if column in table.columns:
            raise ValueError(f"{cells} has a column {column!r}; choose another name with --column")
        with error_prefix(cells):
            wanted = table[list(modes)]
            found = _predictor(model)(wanted if model.training_.modes else wanted.to_numpy())
        write_table_file(table.assign(**{column: found}), out, force=force)
        echo(f"{len(table):,} predictions written to {out}")


@app.command()
def transform(
    run: Run,
    new: Annotated[Path, typer.Argument(help="Entries of new people, as for `parafair fit`.")],
    out: Out,
    modes: Modes = None,
    value: Value = None,
    duplicates: Duplicates = None,
    sensitive: Annotated[
        Path | None,
        option(PEOPLE, "Table of the new people with the model's sensitive columns."),
    ] = None,
    key: Key = None,
    missing: Missing = "error",
    force: Force = False,
) -> None:
    """Embed people whom the model has not seen, with all other factors fixed.

    With --sensitive their rows are moved as the penalty moved people of the training who are like
    them; with the invariant criterion 200 or more are then hidden among themselves, unless
    --strength auto chose noise. Without it only their entries count. --modes and --value are those
    of the run unless given.
    """
    with readable_errors():
        _check_out(out, force=force)
        model = FairCP.load(run)
        training = model.training_
        data = _read_new(Source(new, modes, value, duplicates), model)
        labels = data.labels[training.mode]
        name = (training.modes or data.modes)[training.mode]
        features = None
        if sensitive is not None:
            people = People(sensitive, key=key, missing=missing)
            if Source(new).has_labels:
                before = model.fit_.settings.get("inputs", {})
                names = (before.get("key"), name, data.modes[training.mode])
                people = people.matched_by(names, name)
            features = _read_people(people, labels, training)
            if features.has_features is not None and not features.has_features.any():
                raise ValueError(
                    "nothing is known of any of the new people: check --sensitive and --key, or "
                    "leave out --sensitive to embed them by their entries alone"
                )
        elif key is not None:
            raise ValueError("--key needs the table of people: --sensitive")
        with error_prefix(new):
            rows = model.transform(data, sensitive_features=features)
        write_table_file(rows_as_table(rows, labels, name), out, force=force)
        echo(f"embeddings of {len(rows):,} people written to {out}")


def _predictor(model: FairCP) -> Callable[[Any], NDArray[Any]]:
    """Return `model.predict`; raise where the model has none."""
    try:
        return cast(Callable[[Any], NDArray[Any]], model.predict)
    except AttributeError as error:  # scikit-learn's; ours, which says why, is its cause
        raise ValueError(str(error.__cause__ or error)) from error


def _check_out(out: Path, *, force: bool) -> None:
    check_table_format("the ending of --out", out.suffix.removeprefix("."))
    check_new_file(out, overwrite=force)


def _read_new(source: Source, model: FairCP) -> TensorData:
    """Read entries of new people with the modes of the model, in its order."""
    training, before = model.training_, model.fit_.settings.get("inputs", {})
    known = training.modes or ()
    if source.value is None and source.is_table:
        source = replace(source, value=before.get("value"))
    if known and (source.modes is None or set(source.names) == set(known)):
        source = replace(source, modes=",".join(known))
    data = source.read()
    if data.order != len(model.cp_.shape):
        raise ValueError(
            f"{source.path} has {data.order} modes but the model has {len(model.cp_.shape)}: "
            f"{', '.join(known)}"
        )
    if source.has_labels or training.labels is None:
        return data
    # An array has no labels: its indices are those of the model.
    given = [data.labels[m] if m == training.mode else own for m, own in enumerate(training.labels)]
    with error_prefix(source.path):
        return replace(data, labels=tuple(given))


def _read_people(people: People, labels: Any, training: Training) -> SensitiveFeatures:
    """Return the sensitive features of the new people, in the order of their labels."""
    if training.features is None:
        raise ValueError("the model was fitted without sensitive features; leave out --sensitive")
    table = people.read()
    names = [column.name for column in training.features.columns]
    for name in names:
        if name not in table.columns:
            raise missing_column(people.path, name, map(str, table.columns))
    places = np.arange(len(table)) if people.key is None else people.find(table, labels)
    absent = places < 0
    if len(places) != len(labels):
        raise ValueError(
            f"{people.path} has {len(places)} rows but there are {len(labels)} new people; give "
            "one row per person, in the same order, or --key"
        )
    found = table[names].iloc[places].reset_index(drop=True).astype(object)
    found[absent] = None
    for unknown, what in ((absent, "no row"), (found.isna().any(axis=1).to_numpy(), "no value")):
        if people.missing == "error" and unknown.any():
            raise ValueError(
                f"{people.path} has {what} for {unknown.sum()} of {len(labels)} new people, such "
                f"as {people.key or 'number'} {preview(np.asarray(labels)[unknown])}; add it, or "
                "embed them by their entries alone: --missing exclude"
            )
    with error_prefix(people.path):
        return training.features.read(found, missing=cast(Any, people.missing))
