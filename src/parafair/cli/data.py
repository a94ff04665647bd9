"""The command `parafair datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas
import typer
from rich.table import Table

from parafair.cli.shell import Force, app, numbers, output, readable_errors
from parafair.datasets import DATASETS
from parafair.errors import unknown_choice
from parafair.storage import DATASET_FILES, check_new_folder, new_folder


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set to write to --out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated data.")] = 0,
    shape: Annotated[str, typer.Option(help="Sizes of generated data.")] = "200,100,100",
    rank: Annotated[int, typer.Option(help="Components of generated data.")] = 10,
    force: Force = False,
) -> None:
    """List the data sets, or write one as tensor.npy and sensitive.csv."""
    with readable_errors():
        if name is None:
            table = Table("name", "about", box=None)
            for known in DATASETS:
                table.add_row(known, DATASETS[known]().about)
            output.print(table)
            return
        if name not in DATASETS:
            raise unknown_choice("name", name, DATASETS)
        if out is None:
            raise ValueError("--out is missing; give the folder to write the data set to")
        check_new_folder(out, overwrite=force, ours=DATASET_FILES)
        sizes = tuple(numbers("--shape", shape, int))
        data = DATASETS[name](seed, shape=sizes, rank=rank)
        with new_folder(out, overwrite=force, ours=DATASET_FILES) as folder:
            np.save(folder / "tensor.npy", data.tensor)
            people = pandas.DataFrame(
                {"person": range(len(data.sensitive)), "group": data.sensitive}
            )
            people.to_csv(folder / "sensitive.csv", index=False)
        output.print(
            f"{data.about}\nwritten to {out}", highlight=False, markup=False, soft_wrap=True
        )
