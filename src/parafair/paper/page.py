"""The page of the reproduction: claims, verdicts, figures and readings, made from the tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parafair.paper.claims import judge
from parafair.paper.config import NAMES, QUICK, Figure, Scale, Setup
from parafair.paper.overview import OVERVIEW
from parafair.paper.readings import EXPLAINED, OPTIONS, Readings
from parafair.paper.table import (
    LIMITS_FILE,
    NOTES_FILE,
    SETTINGS_FILE,
    complete_tables,
    read_rows,
)
from parafair.paper.verdict import MARGIN, SMALL_COST, VANISHED, Claim
from parafair.storage import read_json, write_text

INTRODUCTION = """\
# The paper, reproduced

This page reproduces every figure of Kim & Gittens, *Learning Fair Canonical Polyadical
Decompositions using a Kernel Independence Criterion*, and gives a verdict on every claim. The
paper has no public code. The settings are those of its appendix. Where the paper is silent or
contradicts itself, we chose a [reading](#readings). Machines, versions and remarks on the
measurements are under [Runs](#runs). This page is generated from the tables by

```sh
{command}
```
"""

QUICKLY = """\
**This is a quick run** with small data, few points and few iterations. It only shows that
everything works, and it says nothing about the paper.
"""

RULES = f"""\
*Unfairness* is the paper's measure: the accuracy of its two-layer network on held-out people,
minus 0.5. *Leakage* is our measure: the advantage over chance, in balanced accuracy, of the
strongest of several attackers, which do not depend on the scale of the columns. The *residual* is
a ratio of norms, ‖X - model‖ / ‖X‖: a residual of 0.61 leaves 37 % of the sum of squares
unexplained. Numbers are mean ± standard deviation over the runs. "a to b" means a at the smallest
strength and b at the largest.

A verdict follows from checks with fixed thresholds. A difference in unfairness or leakage counts
if it is larger than {MARGIN:g} and larger than twice its standard error. A difference in residual
counts if it is larger than twice its standard error, and an increase of up to {SMALL_COST:g} is a
small cost. A measure goes to zero if it falls below {VANISHED:g} of its first value. Checks of
fairness are made with both measures. A claim is *reproduced* if all checks hold, *not reproduced*
if none of its conclusions holds, and *partly* reproduced otherwise.
"""

SIX = (
    "The six figures as in the paper: its four methods and its own measures. Curves show the first "
    "run, bars show all runs. The figures below add other methods and the leakage."
)
CAPTIONS = {
    "curve": (
        "Left: the paper's measure. Right: the strongest attacker on the same fits. Filled: the "
        "first run. Hollow: the other runs, at some of the strengths. Dotted: an embedding that "
        "reveals nothing. Not in the paper: correlation removal, our criterion (invariant){limit}."
    ),
    "bars": (
        "Mean and standard deviation of {runs} runs. Dotted: an embedding that reveals nothing. "
        "Not in the paper: correlation removal, our criterion (invariant), the leakage{limit}."
    ),
    "rounds": (
        "KHSIC-BCD at strength 0.4: mean and standard deviation of {runs} runs. Not in the paper."
    ),
}


def write_page(folder: str | Path, path: str | Path) -> list[Claim]:
    """Write a page about the tables in a folder, and return its claims.

    Args:
        folder: The folder with the tables of `make_tables` and the pictures of `draw`.
        path: The Markdown file to write; pictures are linked, not copied.
    """
    folder, path = Path(folder), Path(path)
    text, claims = render_page(folder, path)
    write_text(path, text)
    return claims


def render_page(folder: Path, path: Path) -> tuple[str, list[Claim]]:
    """Return the text of the page and its claims; incomplete tables are left out."""
    record = read_json(folder / SETTINGS_FILE)
    setup = Setup.from_record(record["settings"])
    claims = judge(complete_tables(folder, setup), setup.readings)
    quick = setup.scale.name == QUICK.name
    parts = [INTRODUCTION.format(command=_command(setup.readings, quick=quick))]
    parts += [QUICKLY] if quick else []
    missing = [name for name in NAMES if name not in {claim.where for claim in claims}]
    parts += [f"Not made yet: {', '.join(map(figure_name, missing))}.\n"] if missing else []
    parts += ["## Claims\n", RULES, _claims_table(claims), _sections(folder, path, claims, setup)]
    parts += [
        "## Readings\n",
        _readings_table(setup.readings),
        "## Runs\n",
        runs_table(record["runs"]),
    ]
    notes = folder / NOTES_FILE
    parts += [notes.read_text("utf-8")] if notes.exists() else []
    return "\n".join(parts), claims


def _command(readings: Readings, *, quick: bool) -> str:
    """Return the command that makes the same tables."""
    usual = asdict(Readings())
    changed = [
        f"{name}={value}" for name, value in asdict(readings).items() if value != usual[name]
    ]
    words = ["parafair reproduce all", *(["--quick"] if quick else [])]
    return " ".join([*words, *(f"--reading {change}" for change in changed)])


def _claims_table(claims: Iterable[Claim]) -> str:
    rows = []
    for claim in claims:
        measured = [claim.measured]
        measured += [f"*unfairness* {claim.unfairness}"] if claim.unfairness else []
        measured += [f"*leakage* {claim.leakage}"] if claim.leakage else []
        said = f"**{figure_name(claim.where)}.** {claim.paper}"
        rows.append((said, "<br>".join(measured), f"**{claim.verdict}**", claim.reason))
    return markdown_table(("claim of the paper", "measured", "verdict", "reason"), rows)


def figure_name(where: str) -> str:
    """Return the heading of a figure or a theorem."""
    if where.startswith("fig"):
        return f"Figure {where[3:]}"
    return "Iterations" if where == "rounds" else where


def _sections(folder: Path, path: Path, claims: Sequence[Claim], setup: Setup) -> str:
    """Return a heading, a picture and the checks for each complete figure."""
    limits = {row["data"]: row["residual"] for row in reversed(read_rows(folder / LIMITS_FILE))}
    parts = ["## Figures\n"]
    here = Path(os.path.relpath(folder.resolve(), path.resolve().parent)).as_posix()
    if (folder / f"{OVERVIEW}.png").exists():
        parts.append(f"![All six figures]({here}/{OVERVIEW}.png)\n\n*{SIX}*\n")
    for claim in claims:
        figure = setup.figures.get(claim.where)
        if figure is None:
            continue
        parts.append(f"### {figure_name(figure.name)}: {figure.title}\n")
        if (folder / f"{figure.name}.png").exists():
            caption = _caption(figure, limits.get(figure.data), setup.scale)
            parts.append(f"![{figure.title}]({here}/{figure.name}.png)\n\n*{caption}*\n")
        parts += [
            f"- {'holds' if c.holds else '**does not hold**'}: {c.text}" for c in claim.checks
        ]
        parts.append(f"\n[Table]({here}/{figure.name}.csv)\n")
    return "\n".join(parts)


def _caption(figure: Figure, limit: float | None, scale: Scale) -> str:
    known = "" if limit is None else f", the parity limit (exact parity costs {limit:.3f})"
    if figure.kind == "curve" and figure.axis != "residual":
        known = ""
    return CAPTIONS[figure.kind].format(limit=known, runs=scale.runs)


def _readings_table(readings: Readings) -> str:
    rows = []
    for name, explained in EXPLAINED.items():
        chosen = getattr(readings, name)
        others = [option for option in OPTIONS.get(name, ()) if option != chosen]
        other = ", ".join(f"`{name}={option}`" for option in others) or f"`{name}=…`"
        rows.append((f"`{name}={chosen}`", explained.paper, explained.reason, other))
    head = ("reading", "the paper", "reason", "alternatives")
    return (
        "A reading can be changed: `parafair reproduce all --reading units=mean --out other`.\n\n"
        + markdown_table(head, rows)
    )


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the machines and the versions of all runs, as a table."""
    if not runs:
        return "No run is recorded.\n"
    return markdown_table(tuple(runs[0]), [tuple(run.values()) for run in runs])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""

    def line(cells: Iterable[Any]) -> str:
        # A bar would end the cell.
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)]) + "\n"
