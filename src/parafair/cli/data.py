"""The command `parafair datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas
import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.command import command
from parafair.cli.options import RESULT, Force, numbers, option
from parafair.cli.runs import write_table
from parafair.cli.shell import echo, output
from parafair.data.tensor_data import TensorData
from parafair.datasets import DATASETS, Dataset
from parafair.errors import unknown_choice
from parafair.storage import DATASET_FILES, check_new_folder, new_folder

SETTINGS = "Settings of data sets"
# The folder of data that is not generated has a clearer name here.
FLAGS = {"folder": "--data"}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _options() -> dict[str, Any]:
    """Return the options of all data sets, from their registry."""
    texts: dict[str, list[str]] = {}
    kinds: dict[str, type] = {}
    for name, entry in DATASETS.items():
        for each in entry.options:
            text = f"{name}: {each.about.rstrip('.')}"
            if each.default is not None:
                text += f" [default: {_text(each.default)}]"
            texts.setdefault(each.name, []).append(text)
            kinds[each.name] = Path if each.default is None else type(each.default)
    return {
        name: Annotated[
            (str if kind is tuple else kind) | None,
            option(SETTINGS, "; ".join(texts[name]) + ".", FLAGS.get(name, f"--{name}")),
        ]
        for name, kind in kinds.items()
    }


@command("datasets", more=_options())
def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set to write to --out.")] = None,
    out: Annotated[Path | None, option(RESULT, "Folder to create.")] = None,
    force: Force = False,
    **options: Any,
) -> None:
    """List the data sets, or write one as tensor.npy (entries.csv if sparse) and sensitive.csv.

    A target is written as target.csv.
    """
    if name is None:
        output.print(_listing(options.get("folder")))
        return
    if name not in DATASETS:
        raise unknown_choice("name", name, DATASETS)
    if out is None:
        raise ValueError("--out is missing; give the folder to write the data set to")
    check_new_folder(out, overwrite=force, ours=DATASET_FILES)
    found = DATASETS[name].load(**_arguments(name, options))
    with new_folder(out, overwrite=force, ours=DATASET_FILES) as folder:
        if isinstance(found.tensor, TensorData):
            table = found.tensor.to_table()
            if found.times is not None:
                table["time"] = found.times
            write_table(table, folder / "entries.csv")
        else:
            np.save(folder / "tensor.npy", found.tensor)
        write_table(_people(found), folder / "sensitive.csv")
        if found.target is not None:
            write_table(_target(found), folder / "target.csv")
    echo(f"{found.about}\nwritten to {out}")


def _arguments(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a data set; options of others are an error."""
    taken = {each.name: each.default for each in DATASETS[name].options}
    for option_ in given:
        if option_ not in taken:
            some = ", ".join(FLAGS.get(each, f"--{each}") for each in taken)
            raise ValueError(
                f"{name} takes no {FLAGS.get(option_, f'--{option_}')}; use its own options: {some}"
            )
    return {
        each: tuple(numbers(f"--{each}", value, int)) if isinstance(taken[each], tuple) else value
        for each, value in given.items()
    }


def _people(found: Dataset) -> pandas.DataFrame:
    """Return a table of people: their labels, then their features."""
    if isinstance(found.sensitive_features, pandas.DataFrame):
        return found.sensitive_features.reset_index()
    labels = found.labels[found.mode]
    return pandas.DataFrame({found.modes[found.mode]: labels, "group": found.sensitive_features})


def _target(found: Dataset) -> pandas.DataFrame:
    """Return a table of people: their labels, then the target."""
    named = isinstance(found.target, pandas.Series) and found.target.name
    values = np.asarray(found.target)
    return pandas.DataFrame(
        {found.modes[found.mode]: found.labels[found.mode], named or "target": values}
    )


def _listing(data: Path | None) -> Table:
    """Return a table of all data sets, without loading any."""
    table = Table("name", "about", "files", box=None)
    for name, entry in DATASETS.items():
        where = "generated" if entry.source is None else entry.source.where(data)
        table.add_row(name, entry.about, escape(where))
    return table
