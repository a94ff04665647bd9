"""The printed table of an audit, which fits into a terminal."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from parafair.audits.result import ACCURACY, AUC, RANK_CORRELATION, SCORES, Measure, ordered
from parafair.display import TERMINAL

if TYPE_CHECKING:
    from parafair.audits.result import Audit

# Columns that an explanation gets at least, however long the line is.
LEAST = 20


def write(audit: Audit) -> str:
    """Return the tables of all features, then the notes."""
    blocks = []
    for feature in ordered(row.feature for row in audit.rows):
        own = [row for row in audit.rows if row.feature == feature]
        lines = _attackers(own) + _numbers(own, "leakage") + _numbers(own, "dependence")
        lines = lines or [feature]  # the target
        blocks.append("\n".join(lines + _predictions(own) + _numbers(own, "paper")))
    notes = [
        "\n".join(wrap(note, TERMINAL, initial_indent="- ", subsequent_indent="  "))
        for note in audit.notes
    ]
    return "\n\n".join([*blocks, "\n".join(notes)])


def _attackers(rows: list[Measure]) -> list[str]:
    """Return one line per attacker: the input on which it gains most."""
    scores = [row for row in rows if row.section == "attackers" and row.measure in SCORES]
    if not scores:
        return []
    first = scores[0]
    title = f"{first.feature}: {first.measure}, chance {first.chance:.3f}"
    lines = wrap(f"{title} (* above, ! below, simultaneous 95 %)", TERMINAL)
    second = AUC if first.measure == ACCURACY else RANK_CORRELATION
    lines.append(f"{'attacker':<15}{'input':<13}{'value':>7}   {'interval':<17}  {second}")
    for model in ordered(row.model for row in scores):
        best = max((r for r in scores if r.model == model), key=lambda row: row.gain)
        own = {
            r.measure: r
            for r in rows
            if r.section == "attackers" and (r.model, r.input) == (model, best.input)
        }
        row, other = own[first.measure], own.get(second)
        line = f"{model[:14]:<15}{row.input:<13}{row.value:7.3f} {_mark(row)} {_interval(row):<17}"
        beside = "" if other is None else f"{other.value:7.3f} {_mark(other)} {_interval(other)}"
        lines.append(f"{line}{beside}".rstrip())
    return lines


def _mark(row: Measure) -> str:
    if row.above_chance:
        return "*"
    return "!" if row.below_chance else " "


def _interval(row: Measure) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"[{row.low:.3f}, {row.high:.3f}]"


def _numbers(rows: list[Measure], section: str) -> list[str]:
    """Return one line per measure of a section; the paper's have a heading."""
    lines = []
    for row in rows:
        if row.section != section:
            continue
        beside = _interval(row)
        if not beside and row.chance is not None:
            beside = f"chance {row.chance:.4g}"
        lines += _explained(f"  {row.measure:<21}{row.value:>10.4g}  {beside:<18}", row.about)
    if lines and section == "paper":
        lines.insert(0, "  the paper's measures, which depend on the scale of the embedding:")
    return lines


def _predictions(rows: list[Measure]) -> list[str]:
    """Return the measures of downstream predictions, one column per model."""
    own = [row for row in rows if row.section == "predictions"]
    if not own:
        return []
    models = ordered(row.model for row in own)
    lines = [f"  {'predictions of the target':<34}" + "".join(f"{model:>10}" for model in models)]
    for measure in ordered(row.measure for row in own):
        found = {row.model: row for row in own if row.measure == measure}
        cells = "".join(f"{found[m].value:>10.4g}" if m in found else f"{'':10}" for m in models)
        about = next(iter(found.values())).about
        lines += _explained(f"  {measure[:33]:<34}{cells}  ", about)
    return lines


def _explained(line: str, about: str) -> list[str]:
    """Return a line followed by what it is about, which continues below its own beginning."""
    first, *others = wrap(about, max(TERMINAL - len(line), LEAST)) or [""]
    return [f"{line}{first}".rstrip(), *(f"{'':{len(line)}}{other}" for other in others)]
