"""How an audit looks in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.audits.result import AUC, FIRST_SCORES, RANK_CORRELATION, Measure, ordered
from parafair.display import Cell, Html, folded, interval, paragraph, table

if TYPE_CHECKING:
    from parafair.audits.result import Audit

HEADER = ["attacker", "input", "value", "95 % interval", "above chance", ""]


def audit_parts(audit: Audit) -> list[Html]:
    """Return the leakage, the strongest input of each attacker, and the notes."""
    low, high = audit.leakage_interval
    first, *others = audit.notes
    parts = [
        paragraph(
            f"Leakage {audit.leakage:.3f}, 95 % interval {low:.3f} to {high:.3f}: what an attacker "
            f"gains over chance who chooses model and sign. {audit.people:,} people."
        )
    ]
    for feature in ordered(row.feature for row in audit.attackers):
        parts += _feature([row for row in audit.rows if row.feature == feature])
    return [*parts, folded(f"{len(others) + 1} notes", (first, *others))]


def _feature(rows: list[Measure]) -> list[Html]:
    scores = [row for row in rows if row.section == "attackers" and row.measure in FIRST_SCORES]
    chance, measure = scores[0].chance or 0.0, scores[0].measure
    best = [
        max((row for row in scores if row.model == model), key=lambda row: row.gain)
        for model in ordered(row.model for row in scores)
    ]
    # Poor regressors reach far below zero: cut there.
    ends = [end - chance for row in best for end in _ends(row)]
    span = max(-0.5, min(-0.05, *ends)), max(0.05, *ends)
    lines: list[list[Cell]] = [
        [r.model, r.input, r.value, _text(r), _side(r), _drawn(r, chance, span)] for r in best
    ]
    second = [row for row in rows if row.measure in (AUC, RANK_CORRELATION)]
    title = f"{scores[0].feature}: {measure} (chance {chance:.3f})"
    if second:
        title += f"; the largest {second[0].measure} is {max(row.value for row in second):.3f}"
    return [paragraph(title), table(lines, header=HEADER)]


def _ends(row: Measure) -> tuple[float, float]:
    return (row.value if row.low is None else row.low, row.value if row.high is None else row.high)


def _text(row: Measure) -> str:
    low, high = _ends(row)
    return f"{low:.3f} to {high:.3f}"


def _side(row: Measure) -> str:
    if row.above_chance:
        return "above"
    return "below" if row.below_chance else "no"


def _drawn(row: Measure, chance: float, span: tuple[float, float]) -> Html:
    low, high = _ends(row)
    label = f"{row.advantage:.3f} above chance, from {low - chance:.3f} to {high - chance:.3f}"
    return interval(row.advantage, (low - chance, high - chance), span, label)
