"""Options that several commands share; names and defaults are those of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from parafair.audits import ATTACKERS, Audit, audit

DATA, PEOPLE, MODEL = "Data", "People", "Model"
SOLVER, ATTACK, COMPUTE, RESULT = "Solver", "Attackers", "Computation", "Result"

# Names of the options that were typed; set by `parafair.cli.command`.
TYPED: ContextVar[frozenset[str]] = ContextVar("TYPED", default=frozenset())
TABLE_FORMATS = ("csv", "parquet")


def option(panel: str, text: str, *names: str, choices: Iterable[str] = (), **settings: Any) -> Any:
    """Return an option of the command line, listed under a heading.

    Args:
        panel: The heading.
        text: What it is for.
        names: Its names, if it is not called like its parameter.
        choices: The words that it takes; the library refuses others. They are a part of the text,
            because a wide column of types would leave no room for texts.
        settings: Other settings of `typer.Option`.
    """
    if choices:
        settings["metavar"] = "<word>"
        sentence, bracket, default = text.partition(" [")
        text = f"{sentence} One of {', '.join(choices)}.{bracket}{default}"
    return typer.Option(*names, help=text, rich_help_panel=panel, **settings)


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the arguments in Python, which are those of the options."""
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}


def is_given(name: str) -> bool:
    """Tell whether an option of the running command was typed, even if with its default."""
    return name in TYPED.get()


def numbers(option: str, text: str, convert: type) -> list[Any]:
    """Return numbers separated by commas."""
    try:
        return [convert(part) for part in text.split(",")]
    except ValueError as error:
        kind = "whole numbers" if convert is int else "numbers"
        raise ValueError(f"{option} must be {kind} separated by commas, got {text!r}") from error


def words(text: str | None) -> tuple[str, ...] | None:
    """Return words separated by commas; None for None."""
    return None if text is None else tuple(text.split(","))


AUDIT = defaults(audit)
MAX_LEAKAGE = defaults(Audit.verdict)["max_leakage"]

MaxLeakage = Annotated[
    float, option(RESULT, "The largest leakage that passes: advantage of an attacker over chance.")
]
Jobs = Annotated[
    int | None, option(COMPUTE, "Processes to use; -1 is all processors. [default: 1]")
]
Device = Annotated[
    str | None, option(COMPUTE, "Where to compute, such as cuda; by default where the data is.")
]
Force = Annotated[bool, option(RESULT, "Replace an earlier result.", "--force")]
RawLabels = Annotated[
    bool,
    option(
        RESULT,
        "Write text in CSV as it is. By default text that a spreadsheet would run as a formula, "
        "which begins with = + - @, a tab or a line break, gets an apostrophe in front.",
        "--raw-labels",
    ),
]


# A certificate of so many people takes a few seconds on one core.
MOST_CERTIFIED = 20_000


@dataclass(frozen=True)
class AuditOptions:
    """How to attack."""

    attackers: Annotated[
        str, option(ATTACK, f"Some of {', '.join(ATTACKERS)}, as a,b; or all.")
    ] = "all"
    folds: Annotated[int, option(ATTACK, "Folds of the cross-validation.")] = AUDIT["folds"]
    repeats: Annotated[
        int, option(ATTACK, "How often the cross-validation is repeated with other folds.")
    ] = AUDIT["repeats"]
    permutations: Annotated[int, option(ATTACK, "Permutations of the independence test.")] = AUDIT[
        "permutations"
    ]
    max_people: Annotated[
        int, option(ATTACK, "Larger data is sampled down to this many people.")
    ] = AUDIT["max_people"]
    random_state: Annotated[int, option(ATTACK, "Seed of the audit.")] = AUDIT["random_state"]

    def settings(self) -> dict[str, Any]:
        """Return arguments of `audit`."""
        return {
            **vars(self),
            "attackers": None if self.attackers == "all" else words(self.attackers),
        }


@dataclass(frozen=True)
class RunOptions:
    """Where to write a run."""

    out: Annotated[Path, option(RESULT, "Folder to create.")]
    table_format: Annotated[
        str, option(RESULT, "Format of the tables.", "--format", choices=TABLE_FORMATS)
    ] = TABLE_FORMATS[0]
    raw_labels: RawLabels = False
    force: Force = False


@dataclass(frozen=True)
class FittedOptions(RunOptions):
    """Where to write a run that was just fitted, and what it keeps of a fit with noise."""

    certify: Annotated[
        bool | None,
        option(
            RESULT,
            "Certify a fit with noise, which needs rows that the run does not keep. [default: by "
            f"samples if there are more than {MOST_CERTIFIED:,} people]",
            "--certify/--no-certify",
        ),
    ] = None
    keep_exact: Annotated[
        bool,
        option(
            RESULT,
            "Also keep the rows without noise, to certify again. Whoever has them knows the noise "
            "of every released row.",
            "--keep-exact",
        ),
    ] = False


@dataclass(frozen=True)
class TableOptions:
    """Where to write a table."""

    out: Annotated[Path, option(RESULT, "Table to write, .csv or .parquet.")]
    raw_labels: RawLabels = False
    force: Force = False
