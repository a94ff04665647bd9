"""The command `parafair reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.shell import (
    BAD_INPUT,
    INTERRUPTED,
    RESULT,
    SOLVER,
    app,
    echo,
    errors,
    option,
    output,
    progress,
    readable_errors,
)
from parafair.errors import Interrupted
from parafair.paper import FULL, NAMES, QUICK, Claim, read_readings
from parafair.paper import reproduce as reproduce_paper
from parafair.report import FORMATS

EXPERIMENT = "Experiment"
COLORS = {"reproduced": "green", "partly": "yellow", "not reproduced": "red"}


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(help=f"Some of {', '.join(NAMES)}; all by default.")
    ] = None,
    out: Annotated[Path, option(RESULT, "Folder for tables and pictures.")] = Path("reproduction"),
    quick: Annotated[
        bool, option(EXPERIMENT, "Small data and few points, to see that it works.", "--quick")
    ] = False,
    data: Annotated[
        Path | None,
        option(EXPERIMENT, "Folder with cmc/cmc.data; by default PARAFAIR_DATA or a download."),
    ] = None,
    reading: Annotated[
        list[str] | None,
        option(EXPERIMENT, "Another reading of the paper, as units=mean; see the page."),
    ] = None,
    device: Annotated[str | None, option(SOLVER, "Where to compute, such as cuda.")] = None,
    jobs: Annotated[int, option(SOLVER, "Processes to use; -1 is all processors.")] = 1,
    formats: Annotated[str, option(RESULT, "Formats of the pictures.", "--format")] = ",".join(
        FORMATS
    ),
    page: Annotated[
        Path | None, option(RESULT, "The page to write; by default reproduction.md in the folder.")
    ] = None,
) -> None:
    """Reproduce the figures of the paper, with a verdict on each of its claims.

    Rows are written as they come. If the command is interrupted, the same command goes on where
    it was; with other settings it refuses the folder.
    """
    with readable_errors():
        everything = not figures or "all" in figures
        names = NAMES if everything else tuple(dict.fromkeys(figures or ()))
        try:
            with progress("rows") as advance:

                def on_progress(what: str, done: int, total: int, left: float | None) -> None:
                    advance(done, total, what + ("" if left is None else f", {_time(left)} left"))

                made = reproduce_paper(
                    names,
                    out=out,
                    scale=QUICK if quick else FULL,
                    readings=read_readings(reading or ()),
                    data=data,
                    device=device,
                    n_jobs=jobs,
                    formats=formats.split(","),
                    page=page,
                    on_progress=on_progress,
                )
        except (Interrupted, KeyboardInterrupt) as error:
            echo(f"interrupted; finished rows are in {out}, and the same command goes on from them")
            raise typer.Exit(INTERRUPTED) from error
        show(made.claims)
        echo(f"tables and pictures: {out}\npage: {made.page}")
        if made.left_out:
            reason = next(iter(made.left_out.values()))
            errors.print(
                f"[bold red]Error:[/] {', '.join(made.left_out)} left out: {escape(reason)}",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(BAD_INPUT)


def show(claims: tuple[Claim, ...]) -> None:
    """Print the claims and their verdicts; the numbers are on the page."""
    table = Table(box=None, title="What the paper says, and what came out")
    for name in ("", "the paper says", "verdict"):
        table.add_column(name, no_wrap=name == "verdict")
    for claim in claims:
        table.add_row(claim.where, claim.paper, f"[{COLORS[claim.verdict]}]{claim.verdict}[/]")
    output.print(table, highlight=False)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
