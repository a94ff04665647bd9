"""The command `parafair reproduce`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.command import command
from parafair.cli.options import RESULT, Device, Jobs, defaults, option
from parafair.cli.shell import BAD_INPUT, INTERRUPTED, echo, errors, output, progress
from parafair.errors import Interrupted
from parafair.paper import FULL, NAMES, QUICK, Claim, read_readings
from parafair.paper import reproduce as reproduce_paper

EXPERIMENT = "Experiment"
PAPER = defaults(reproduce_paper)
COLORS = {"reproduced": "green", "partly": "yellow", "not reproduced": "red"}


@dataclass(frozen=True)
class ExperimentOptions:
    """What to run."""

    quick: Annotated[
        bool, option(EXPERIMENT, "Small data and few points, to see that it works.", "--quick")
    ] = False
    data: Annotated[
        Path | None,
        option(EXPERIMENT, "Folder with cmc/cmc.data; by default $PARAFAIR_DATA or a download."),
    ] = PAPER["data"]
    reading: Annotated[
        list[str] | None,
        option(EXPERIMENT, "Another reading of the paper, as units=mean; see the page."),
    ] = None
    device: Device = PAPER["device"]
    n_jobs: Jobs = PAPER["n_jobs"]


@dataclass(frozen=True)
class PageOptions:
    """What to write."""

    out: Annotated[Path, option(RESULT, "Folder for tables and pictures.")] = Path("reproduction")
    formats: Annotated[str, option(RESULT, "Formats of the pictures, as a,b.", "--format")] = (
        ",".join(PAPER["formats"])
    )
    page: Annotated[
        Path | None, option(RESULT, "The page to write; by default reproduction.md in the folder.")
    ] = PAPER["page"]


@command("reproduce")
def reproduce(
    experiment: ExperimentOptions,
    result: PageOptions,
    figures: Annotated[
        list[str] | None, typer.Argument(help=f"Some of {', '.join(NAMES)}; all by default.")
    ] = None,
) -> None:
    """Reproduce the figures of the paper, with a verdict on each of its claims.

    Finished rows are written at once. If the command is interrupted, the same command continues;
    with other settings it refuses the folder.
    """
    everything = not figures or "all" in figures
    names = NAMES if everything else tuple(dict.fromkeys(figures or ()))
    try:
        with progress("rows") as bar:

            def on_progress(what: str, done: int, total: int, left: float | None) -> None:
                bar(done, total, what + ("" if left is None else f", {_time(left)} left"))

            made = reproduce_paper(
                names,
                out=result.out,
                scale=QUICK if experiment.quick else FULL,
                readings=read_readings(experiment.reading or ()),
                data=experiment.data,
                device=experiment.device,
                n_jobs=experiment.n_jobs,
                formats=result.formats.split(","),
                page=result.page,
                on_progress=on_progress,
            )
    except (Interrupted, KeyboardInterrupt) as error:
        echo(f"interrupted; finished rows are in {result.out}, and the same command continues")
        raise typer.Exit(INTERRUPTED) from error
    show(made.claims)
    echo(f"tables and pictures: {result.out}\npage: {made.page}")
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
    table = Table(box=None, title="Claims of the paper and verdicts", title_justify="left")
    for name in ("", "the paper says", "verdict"):
        table.add_column(name, no_wrap=name == "verdict")
    for claim in claims:
        table.add_row(claim.where, claim.paper, f"[{COLORS[claim.verdict]}]{claim.verdict}[/]")
    output.print(table, highlight=False)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
