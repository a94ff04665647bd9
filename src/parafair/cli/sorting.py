"""The command `parafair sort`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from parafair.cli.command import command
from parafair.cli.options import COMPUTE, DATA, RESULT, Force, defaults, option, words
from parafair.cli.shell import echo, progress
from parafair.data.long_table import Duplicates
from parafair.data.sorting import sort_parquet

DEFAULTS = defaults(sort_parquet)


@command("sort")
def sort(
    source: Annotated[
        list[Path],
        typer.Argument(help="A folder of .parquet files with a row per entry, or files."),
    ],
    modes: Annotated[
        str, option(DATA, "Columns that name an entry, the people first, as user,film,year.")
    ],
    value: Annotated[str, option(DATA, "Column with the numbers.")],
    out: Annotated[Path, option(RESULT, "Folder to create.")],
    duplicates: Annotated[
        str,
        option(DATA, "What to do with several rows for one entry.", choices=get_args(Duplicates)),
    ] = DEFAULTS["duplicates"],
    memory: Annotated[
        str, option(COMPUTE, "Memory for the entries that are sorted at once.")
    ] = DEFAULTS["memory"],
    force: Force = False,
) -> None:
    """Sort entries by person, for fits to data that is larger than memory.

    The rows may be in any order and in any files. `parafair fit` reads the folder like a file, and
    keeps no more of it in memory than it needs. Temporary files in the same place take as much
    space as the result.
    """
    with progress("sorting") as bar:
        data = sort_parquet(
            source,
            out,
            modes=words(modes) or (),
            value=value,
            duplicates=cast(Duplicates, duplicates),
            memory=memory,
            overwrite=force,
            on_progress=lambda done, total: bar(done, total, "rows, three times"),
        )
    echo(f"{str(data).removeprefix('TensorData(').removesuffix(')')}\nwritten to {out}")
