"""The command `parafair reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from parafair.cli.command import command
from parafair.cli.options import RESULT, Device, Force, Jobs, defaults, option
from parafair.cli.shell import BAD_INPUT, INTERRUPTED, echo, errors, output, progress
from parafair.errors import Interrupted
from parafair.paper import (
    COMPARED,
    FULL,
    NAMES,
    PAPER_FIGURES,
    QUICK,
    Amount,
    Claim,
    compare_readings,
    read_readings,
    read_values,
    write_comparison,
)
from parafair.paper import reproduce as reproduce_paper
from parafair.paper.verdict import MEASURES
from parafair.paper.work import OnProgress
from parafair.storage import check_new_file

EXPERIMENT = "Experiment"
PAPER = defaults(reproduce_paper)
# What is made instead of the figures: the claims under many readings.
READINGS = "readings"
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
        option(
            EXPERIMENT,
            "Another reading of the paper, as units=mean; see the page. For readings, also several "
            "values, as rounds=100,300.",
        ),
    ] = None
    device: Device = PAPER["device"]
    n_jobs: Jobs = PAPER["n_jobs"]


@dataclass(frozen=True)
class PageOptions:
    """What to write."""

    out: Annotated[
        Path | None,
        option(RESULT, "Folder for tables and pictures; by default reproduction or readings."),
    ] = None
    formats: Annotated[str, option(RESULT, "Formats of the pictures, as a,b.", "--format")] = (
        ",".join(PAPER["formats"])
    )
    page: Annotated[
        Path | None,
        option(
            RESULT, "The page to write; by default reproduction.md or readings.md in the folder."
        ),
    ] = PAPER["page"]
    force: Force = False


@command("reproduce")
def reproduce(
    experiment: ExperimentOptions,
    result: PageOptions,
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Some of {', '.join(NAMES)}; all by default. With the word readings before them, "
            "their claims are judged under many readings of the paper: some hundreds on a GPU, and "
            "a few on a CPU."
        ),
    ] = None,
) -> None:
    """Reproduce the figures of the paper, with a verdict on each of its claims.

    Finished rows are written at once. If the command is interrupted, the same command continues;
    with other settings it refuses the folder.
    """
    if figures and figures[0] == READINGS:
        _compare(figures[1:], experiment, result)
        return
    everything = not figures or "all" in figures
    names = NAMES if everything else tuple(dict.fromkeys(figures or ()))
    out = result.out or Path("reproduction")
    with _rows(out) as (_, on_progress):
        made = reproduce_paper(
            names,
            out=out,
            scale=QUICK if experiment.quick else FULL,
            readings=read_readings(experiment.reading or ()),
            data=experiment.data,
            device=experiment.device,
            n_jobs=experiment.n_jobs,
            formats=result.formats.split(","),
            page=result.page,
            overwrite=result.force,
            on_progress=on_progress,
        )
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


def _compare(names: Sequence[str], experiment: ExperimentOptions, result: PageOptions) -> None:
    """Judge the claims of figures under many readings."""
    out = result.out or Path(READINGS)
    page = result.page or out / f"{READINGS}.md"
    if result.page is not None:
        check_new_file(page, overwrite=result.force)
    with _rows(out) as (say, on_progress):

        def announce(amount: Amount) -> None:
            say(
                f"{amount.combinations} combinations of readings and figures, {amount.rows} rows "
                f"to make, about {_time(amount.seconds)}"
            )

        found = compare_readings(
            PAPER_FIGURES if "all" in names else tuple(dict.fromkeys(names)),
            out=out,
            scale=QUICK if experiment.quick else COMPARED,
            readings=read_values(experiment.reading or ()),
            data=experiment.data,
            device=experiment.device,
            n_jobs=experiment.n_jobs,
            on_start=announce,
            on_progress=on_progress,
        )
    write_comparison(out, page)
    table = Table(box=None, title="Combinations that reproduce a claim", title_justify="left")
    for column in ("", "the paper says", "combinations", "with its classifier", "with attackers"):
        table.add_column(column)
    for name, verdicts in found.items():
        claims = [verdict.claim for verdict in verdicts]
        held = [sum(c.by(m).verdict == "reproduced" for c in claims) for m in MEASURES]
        table.add_row(name, claims[0].paper, *map(str, (len(claims), *held)))
    output.print(table, highlight=False)
    echo(f"tables: {out}\npage: {page}")


@contextmanager
def _rows(out: Path) -> Iterator[tuple[Callable[[str], None], OnProgress]]:
    """Yield callbacks that print a line and show the progress; after Ctrl-C, say what to do."""
    try:
        with progress("rows") as bar:

            def on_progress(what: str, done: int, total: int, left: float | None) -> None:
                bar(done, total, what + ("" if left is None else f", {_time(left)} left"))

            yield bar.echo, on_progress
    except (Interrupted, KeyboardInterrupt) as error:
        echo(f"interrupted; finished rows are in {out}, and the same command continues")
        raise typer.Exit(INTERRUPTED) from error


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
