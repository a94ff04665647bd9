"""The commands `parafair predict` and `parafair transform`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parafair.cli.command import command
from parafair.cli.inputs import Inputs
from parafair.cli.new_people import read_new, read_new_features
from parafair.cli.options import MODEL, RESULT, TableOptions, option
from parafair.cli.people import PeopleOptions
from parafair.cli.runs import check_table_format, rows_as_table, write_table_file
from parafair.cli.shell import echo
from parafair.cli.side import SideOptions, read_new_side
from parafair.cli.tensors import TensorOptions, error_prefix
from parafair.data.frames import read_table
from parafair.errors import missing_column
from parafair.model.estimator import FairCP
from parafair.model.predicting import UNKNOWN
from parafair.model.tucker import FairTucker, load_model
from parafair.storage import check_new_file

Run = Annotated[Path, typer.Argument(help="A folder that `parafair fit` wrote.")]
Unknown = Annotated[
    str,
    option(
        MODEL,
        "What to do with labels that the run does not have: an error, or predictions from the "
        "offsets of --center alone.",
        choices=UNKNOWN,
    ),
]


@command("predict")
def predict(
    run: Run,
    cells: Annotated[
        Path, typer.Argument(help="Table (.csv, .parquet) with a column of labels for each mode.")
    ],
    result: TableOptions,
    column: Annotated[str, option(RESULT, "Name of the column of predictions.")] = "prediction",
    unknown: Unknown = UNKNOWN[0],
) -> None:
    """Predict any cells, observed or missing.

    Writes the table again with one more column. Labels that the model does not have are an error
    unless --unknown is offsets.
    """
    check_table_result(result)
    model = load_model(run)
    modes = model.training_.axes.modes
    table = read_table(cells, labels=modes)
    for name in modes:
        if name not in table.columns:
            raise missing_column(cells, name, map(str, table.columns))
    if column in table.columns:
        raise ValueError(f"{cells} has a column {column!r}; choose another name with --column")
    with error_prefix(cells):
        found = model.predict(table[list(modes)], unknown=unknown)
    write_table_file(table.assign(**{column: found}), result)
    echo(f"{len(table):,} predictions written to {result.out}")


@command("transform")
def transform(
    run: Run,
    tensor: TensorOptions,
    people: PeopleOptions,
    side: SideOptions,
    result: TableOptions,
    refine: Annotated[
        bool,
        option(
            MODEL,
            "Also minimize the objective of the training over all new people together. This hides "
            "more if there are several hundred; needs --sensitive.",
            "--refine",
        ),
    ] = False,
    allow_leak: Annotated[
        bool,
        option(
            MODEL,
            "Embed new people without --sensitive although the run has no encoder: their rows may "
            "reveal the sensitive features.",
            "--allow-leak",
        ),
    ] = False,
) -> None:
    """Embed new people, with all other factors fixed.

    A run with an encoder, as of --encoder network, embeds them by their entries alone and needs no
    --sensitive. With other runs and --sensitive their rows are shifted as the penalty shifted the
    people of the training most like them; without it they would be fitted to their entries alone,
    which is refused unless --allow-leak is given or the method is none. --modes, --value,
    --duplicates, --absent, --key, --missing, --side-columns and --side-key are those of the run
    unless given.
    """
    check_table_result(result)
    model, inputs = load_model(run), Inputs.read(run)
    training, axes = model.training_, model.training_.axes
    data = read_new(tensor, training, inputs)
    labels, name = data.labels[axes.mode], axes.modes[axes.mode]
    table = read_new_side(
        side,
        data,
        axes,
        inputs.side_options,
        key=people.key or inputs.key,
        labeled=tensor.has_labels,
    )
    features = None
    if people.sensitive is not None:
        features = read_new_features(tensor, people, data, training, inputs)
    elif people.key is not None or people.missing is not None:
        raise ValueError(
            "--key and --missing need the table of people, but it was not given; add --sensitive"
        )
    elif not allow_leak:
        _check_safe(model)
    with error_prefix(tensor.tensor):
        rows = model.transform(data, sensitive_features=features, side=table, refine=refine)
    write_table_file(rows_as_table(rows, labels, name), result)
    echo(f"embeddings of {len(rows):,} people written to {result.out}")


def _check_safe(model: FairCP | FairTucker) -> None:
    """Raise if new people without features would get rows that may reveal their features."""
    if model.encoder_ is None and model.method != "none":
        raise ValueError(
            f"--sensitive is missing, and the run of method {model.method} has no encoder for "
            "people without sensitive features, so the rows of new people would reveal them; add "
            "--sensitive, fit again with --method invariant --encoder network, "
            "or accept it with --allow-leak"
        )


def check_table_result(result: TableOptions) -> None:
    """Raise if a table cannot be written; call it before any work is done."""
    check_table_format("the ending of --out", result.out.suffix.removeprefix("."))
    check_new_file(result.out, overwrite=result.force)
