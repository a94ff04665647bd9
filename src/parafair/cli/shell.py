"""What all commands share: the application, its consoles, options, errors and progress."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from parafair import __version__
from parafair.errors import ParafairWarning
from parafair.solvers import GradientBCD
from parafair.solvers.problem import DEFAULT_RIDGE, PLENTY

app = typer.Typer(
    name="parafair",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""Decompose a tensor so that the embedding of people reveals less about them.

Try it:

parafair datasets synthetic --out data

parafair fit data/tensor.npy --sensitive data/sensitive.csv --key person --rank 8 --strength 20
--out run

parafair audit run --sensitive data/sensitive.csv --key person

With tables of your own:

parafair fit scores.csv --modes student,module,test --value score --sensitive students.csv
--sensitive-columns gender --key student --rank 4 --strength 1 --out run
""",
)
output, errors = Console(), Console(stderr=True)

INTERRUPTED, BAD_INPUT = 130, 2


def option(panel: str, text: str, *names: str) -> Any:
    """Return an option of the command line, listed under a heading."""
    return typer.Option(*names, help=text, rich_help_panel=panel)


DATA, PEOPLE, MODEL = "Data", "People", "Model"
SOLVER, ATTACK, RESULT = "Solver", "Attackers", "Result"

Tensor = Annotated[
    Path,
    typer.Argument(
        help="The data: a table (.csv, .parquet) with a row per entry, a list of entries (.tns), "
        "or an array (.npy, or .npz with one array)."
    ),
]
Modes = Annotated[
    str | None,
    option(DATA, "Columns of the table that say where an entry belongs, as student,module,test."),
]
Value = Annotated[str | None, option(DATA, "Column of the table with the numbers.")]
Duplicates = Annotated[
    str | None,
    option(DATA, "Several rows for one entry: error (default), mean, sum, max, first or last."),
]
Test = Annotated[
    float | None, option(DATA, "Hold out this share of the entries and predict them, such as 0.2.")
]
Key = Annotated[
    str | None, option(PEOPLE, "Column of the people's table that says who it is.", "--key")
]
Mode = Annotated[
    str | None,
    option(PEOPLE, "The mode of the people, by name or number: by default the key's, or 0."),
]
Missing = Annotated[
    str,
    option(
        PEOPLE,
        "People of whom something is not known: error, or exclude (fitted, but left out of the "
        "criterion).",
    ),
]
Columns = Annotated[
    str | None,
    option(
        PEOPLE,
        "Sensitive columns, as a,b; by default all but the key.",
        "--sensitive-columns",
        "--columns",
    ),
]
RIDGE_HELP = (
    "Holds back rows with few entries, as that many more entries that are zero would; by default "
    f"{DEFAULT_RIDGE:g} if entries are missing and some index has fewer than {PLENTY} for each "
    "component, else 0"
)
Ridge = Annotated[float | None, option(MODEL, RIDGE_HELP + ".")]
Center = Annotated[
    bool,
    option(MODEL, "Subtract the mean and what each label adds to it, except people.", "--center"),
]
Kinds = Annotated[
    list[str] | None, option(PEOPLE, "State a column's kind, as age=numeric or code=categorical.")
]
TableFormat = Annotated[str, option(RESULT, "Of the tables: csv or parquet.", "--format")]
Force = Annotated[bool, option(RESULT, "Replace an earlier result in the folder.", "--force")]


def _show_version(wanted: bool) -> None:
    if wanted:
        output.print(f"parafair {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold the options of the command itself."""


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn the library's errors and warnings into one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", ParafairWarning)
        try:
            yield
        except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
            text = str(error) or "not enough memory; use a smaller tensor"
            errors.print(f"[bold red]Error:[/] {escape(text)}", highlight=False)
            raise typer.Exit(BAD_INPUT) from error
        finally:
            for warning in caught:
                if issubclass(warning.category, ParafairWarning):
                    text = escape(str(warning.message))
                    errors.print(f"[yellow]Warning:[/] {text}", highlight=False)


def numbers(option: str, text: str, convert: type) -> list[Any]:
    """Return numbers separated by commas."""
    try:
        return [convert(part) for part in text.split(",")]
    except ValueError as error:
        kind = "whole numbers" if convert is int else "numbers"
        raise ValueError(f"{option} must be {kind} separated by commas, got {text!r}") from error


def gradient_solver(step_sizes: str, inner_steps: int) -> GradientBCD:
    """Return the solver of the paper with these settings."""
    steps = numbers("--step-sizes", step_sizes, float)
    return GradientBCD(tuple(steps), inner_steps)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Any]:
    """Show a bar; gives a function to call with the number done, the total and a remark."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=total, state="")

        def advance(done: int, total: int | None = total, state: str = "") -> None:
            bar.update(task, completed=done, total=total, state=state)

        yield advance


def echo(text: str) -> None:
    """Print a line as it is."""
    output.print(text, highlight=False, markup=False, soft_wrap=True)
