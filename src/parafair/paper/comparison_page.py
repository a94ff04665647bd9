"""The page about readings: under which readings each claim of the paper holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from parafair.paper.comparison import VERDICTS_FILE, Verdict, read_verdicts
from parafair.paper.config import QUICK
from parafair.paper.page import QUICKLY, figure_name, markdown_table, runs_table
from parafair.paper.product import EVERY, SOME, Product
from parafair.paper.readings import EXPLAINED, Readings
from parafair.paper.table import NOTES_FILE, SETTINGS_FILE
from parafair.paper.verdict import MEASURES, NOT, PARTLY, REPRODUCED, Claim
from parafair.storage import read_json, write_text

INTRODUCTION = """\
# The paper under other readings

The paper leaves some settings open, and contradicts itself about others. Its reproduction
(`parafair reproduce all`) chooses one reading of each. This page judges every claim under all
combinations of the readings below that concern it, {combinations} in total. A claim is judged
twice: with the *unfairness* that the paper's classifier measures, and with the *leakage* that
attackers find. The attackers standardize the columns, and the classifier does not. The rules are
those of the reproduction. Each combination has {runs} runs. This page is generated from the tables
by

```sh
{command}
```
"""
WORDS = {"unfairness": "the paper's classifier", "leakage": "the attackers"}
# Rows of numbers that a figure shows; the table has all of them.
SHOWN = 8


def write_comparison(folder: str | Path, path: str | Path) -> None:
    """Write a page about the tables of `compare_readings`.

    Args:
        folder: The folder with the tables.
        path: The Markdown file to write.
    """
    folder, path = Path(folder), Path(path)
    write_text(path, render_comparison(folder, path))


def render_comparison(folder: Path, path: Path) -> str:
    """Return the text of the page."""
    record = read_json(folder / SETTINGS_FILE)
    product, verdicts = Product.from_record(record["settings"]), read_verdicts(folder)
    on_gpu = any(run["device"] != "cpu" for run in record["runs"])
    parts = [
        INTRODUCTION.format(
            combinations=sum(map(len, verdicts.values())),
            runs=product.scale.runs,
            command=_command(product, verdicts, on_gpu=on_gpu),
        )
    ]
    parts += [QUICKLY] if product.scale.name == QUICK.name else []
    notes = folder / NOTES_FILE
    parts += [notes.read_text("utf-8")] if notes.exists() else []
    parts += ["## Readings\n", _readings(product, verdicts), "## Claims\n", _claims(verdicts)]
    here = Path(os.path.relpath(folder.resolve(), path.resolve().parent)).as_posix()
    for name, own in verdicts.items():
        parts += [f"### {figure_name(name)}\n", f"{own[0].claim.paper}\n"]
        parts += [f"- {_where(product, name, own, measure)}" for measure in MEASURES]
        parts += ["", _checks(own), _by_value(product, name, own), _numbers(product, name, own)]
    parts += [f"[All combinations]({here}/{VERDICTS_FILE})\n", "## Runs\n"]
    return "\n".join([*parts, runs_table(record["runs"])])


def _command(product: Product, figures: Iterable[str], *, on_gpu: bool) -> str:
    """Return the command that makes the same tables."""
    usual = EVERY if on_gpu else SOME
    changes = [
        f"--reading {name}={','.join(map(str, values))}"
        for name, values in product.values.items()
        if usual.get(name) != values
    ]
    device = ["--device cuda"] if on_gpu else []
    return " ".join(["parafair reproduce readings", *figures, *changes, *device])


def _readings(product: Product, figures: Iterable[str]) -> str:
    used = {name for figure in figures for name in product.concerning(figure)}
    rows = []
    for name in EXPLAINED:
        if name in used:
            values = ", ".join(f"`{value}`" for value in product.values[name])
            rows.append((f"`{name}`", values, EXPLAINED[name].paper))
    return markdown_table(("reading", "values", "the paper"), rows)


def _claims(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    rows = []
    for name, own in verdicts.items():
        claims = [verdict.claim for verdict in own]
        counts = [_counts(claim.by(measure) for claim in claims) for measure in MEASURES]
        said = f"**{figure_name(name)}.** {own[0].claim.paper}"
        rows.append((said, len(own), *counts, _counts(claims)))
    head = ("claim of the paper", "combinations", *WORDS.values(), "both")
    return (
        "Numbers of combinations under which a claim is reproduced, partly reproduced and not "
        "reproduced:\n\n" + markdown_table(head, rows)
    )


def _counts(claims: Iterable[Claim]) -> str:
    found = [claim.verdict for claim in claims]
    return " / ".join(str(found.count(verdict)) for verdict in (REPRODUCED, PARTLY, NOT))


def _where(product: Product, name: str, verdicts: Sequence[Verdict], measure: str) -> str:
    """Return a sentence about the combinations under which a claim is reproduced."""
    held = [v.readings for v in verdicts if _holds(v, measure)]
    who = f"With {WORDS[measure]}"
    if not held:
        return f"{who}: reproduced under none of {len(verdicts)} combinations."
    common = []
    for reading in product.concerning(name):
        values = [v for v in product.values[reading] if v in {getattr(r, reading) for r in held}]
        if len(values) < len(product.values[reading]):
            common.append(f"`{reading}={' or '.join(map(str, values))}`")
    sentence = f"{who}: reproduced under {len(held)} of {len(verdicts)} combinations."
    return sentence + (f" All of them have {', '.join(common)}." if common else "")


def _checks(verdicts: Sequence[Verdict]) -> str:
    """Return under how many combinations each check holds."""
    counts: dict[str, int] = {}
    for check in (check for verdict in verdicts for check in verdict.claim.checks):
        counts[check.text] = counts.get(check.text, 0) + check.holds
    return markdown_table(("check", f"holds under, of {len(verdicts)}"), counts.items())


def _by_value(product: Product, name: str, verdicts: Sequence[Verdict]) -> str:
    """Return how often the claim is reproduced with each value of each reading, if ever."""
    if not any(_holds(verdict, measure) for verdict in verdicts for measure in MEASURES):
        return ""
    rows: list[tuple[Any, ...]] = []
    for reading in product.concerning(name):
        for value in product.values[reading]:
            own = [v for v in verdicts if getattr(v.readings, reading) == value]
            held = [sum(_holds(v, measure) for v in own) for measure in MEASURES]
            rows.append((f"`{reading}={value}`", len(own), *held))
    return markdown_table(
        ("reading", "combinations", *(f"reproduced with {w}" for w in WORDS.values())), rows
    )


def _numbers(product: Product, name: str, verdicts: Sequence[Verdict]) -> str:
    """Return the numbers of the usual readings, and of those under which the claim holds."""
    usual = Readings()
    shown = [v for v in verdicts if v.readings == usual]
    held = [v for v in verdicts if any(_holds(v, measure) for measure in MEASURES)]
    shown += [verdict for verdict in held if verdict not in shown]
    rows = []
    for verdict in shown[:SHOWN]:
        changed = [
            f"`{reading}={getattr(verdict.readings, reading)}`"
            for reading in product.concerning(name)
            if getattr(verdict.readings, reading) != getattr(usual, reading)
        ]
        claim = verdict.claim
        rows.append(
            (
                " ".join(changed) or "those of the reproduction",
                claim.measured,
                *(f"{getattr(claim, m)}: **{claim.by(m).verdict}**" for m in MEASURES),
            )
        )
    if not rows:
        return ""
    more = len(shown) - len(rows)
    left = f"\nThe claim holds under {more} more combinations, in the table.\n" if more else ""
    return markdown_table(("readings", "measured", *MEASURES), rows) + left


def _holds(verdict: Verdict, measure: str) -> bool:
    return verdict.claim.by(measure).verdict == REPRODUCED
