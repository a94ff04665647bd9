"""The command `parafair datasets`."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas
import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.shell import Force, app, echo, numbers, output, readable_errors
from parafair.data.tensor_data import TensorData
from parafair.datasets import DATASETS, Dataset
from parafair.errors import unknown_choice
from parafair.storage import DATASET_FILES, check_new_folder, new_folder


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set to write to --out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data that is not generated; by default $PARAFAIR_DATA."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of generated data: 0.")] = None,
    shape: Annotated[str | None, typer.Option(help="Sizes of synthetic: 200,100,100.")] = None,
    rank: Annotated[int | None, typer.Option(help="Components of synthetic: 10.")] = None,
    students: Annotated[int | None, typer.Option(help="Number of people of marks: 200.")] = None,
    force: Force = False,
) -> None:
    """List the data sets, or write one as tensor.npy (entries.csv if sparse) and sensitive.csv."""
    with readable_errors():
        if name is None:
            output.print(_listing(data))
            return
        if name not in DATASETS:
            raise unknown_choice("name", name, DATASETS)
        if out is None:
            raise ValueError("--out is missing; give the folder to write the data set to")
        check_new_folder(out, overwrite=force, ours=DATASET_FILES)
        sizes = None if shape is None else tuple(numbers("--shape", shape, int))
        options = {
            "seed": seed, "shape": sizes, "rank": rank, "students": students, "folder": data,
        }  # fmt: skip
        given = {option: value for option, value in options.items() if value is not None}
        taken = signature(DATASETS[name].load).parameters
        wrong = sorted(given.keys() - taken)
        if wrong:
            flags = {option: f"--{'data' if option == 'folder' else option}" for option in options}
            some = ", ".join(flags[option] for option in options if option in taken)
            raise ValueError(f"{name} takes no {flags[wrong[0]]}; its options are {some}")
        found = DATASETS[name].load(**given)
        with new_folder(out, overwrite=force, ours=DATASET_FILES) as folder:
            if isinstance(found.tensor, TensorData):
                found.tensor.to_table().to_csv(folder / "entries.csv", index=False)
            else:
                np.save(folder / "tensor.npy", found.tensor)
            _people(found).to_csv(folder / "sensitive.csv", index=False)
        echo(f"{found.about}\nwritten to {out}")


def _people(found: Dataset) -> pandas.DataFrame:
    """Return a table of people: who they are, then their features."""
    if isinstance(found.sensitive_features, pandas.DataFrame):
        return found.sensitive_features.reset_index()
    labels = found.labels[found.mode]
    return pandas.DataFrame({found.modes[found.mode]: labels, "group": found.sensitive_features})


def _listing(data: Path | None) -> Table:
    """Return a table of all data sets, none of which is loaded."""
    table = Table("name", "about", "files", box=None)
    for name, entry in DATASETS.items():
        where = "generated" if entry.source is None else entry.source.where(data)
        table.add_row(name, entry.about, escape(where))
    return table
