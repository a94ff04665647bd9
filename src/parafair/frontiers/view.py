"""How a frontier looks in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.display import Cell, Dots, Html, paragraph, scatter, table
from parafair.guarantees.statements import rounded_up
from parafair.pictures import METHOD_COLORS

if TYPE_CHECKING:
    from parafair.frontiers.point import Point
    from parafair.frontiers.result import Frontier

# Efficient points that are listed.
MOST = 15


def frontier_parts(frontier: Frontier) -> list[Html]:
    """Return residual against leakage of all fits, and the efficient ones as a table."""
    if not frontier.audited:
        rows = [[p.member.id, p.residual, p.fit.status.value] for p in frontier.points[:MOST]]
        return [table(rows, header=["fit", "residual", "status"])]
    groups = []
    for index, method in enumerate(frontier.methods):
        own, color = frontier.of(method), METHOD_COLORS[index % len(METHOD_COLORS)]
        groups.append(Dots([_place(p) for p in own.audited], color, filled=False))
        groups.append(Dots([_place(p) for p in own.efficient], color, connected=True))
    label = f"residual against leakage of {len(frontier.audited)} fits"
    drawn = scatter(groups, label, axes=("residual", "measured leakage"))
    header = ["efficient fit", "strength", "noise", "residual", "leakage", "verdict", "certified"]
    shown = frontier.efficient[:MOST]
    listed = table([_row(point) for point in shown], header=header)
    text = f"{len(frontier.efficient)} of {len(frontier)} fits are Pareto-efficient (filled)"
    if len(shown) < len(frontier.efficient):
        text += f"; the first {len(shown)} are listed"
    return [drawn, paragraph(text + ". Verdicts are at max_leakage=0.05."), listed]


def _place(point: Point) -> tuple[float, float]:
    return point.residual, point.leakage


def _row(point: Point) -> list[Cell]:
    assert point.audit is not None
    member, verdict = point.member, point.audit.verdict().value
    kinds = () if point.certificate is None else point.certificate.statements
    certified = next((rounded_up(s.upper) for s in kinds if s.kind == "release"), None)
    return [
        member.method,
        member.strength,
        member.noise,
        point.residual,
        round(point.leakage, 3),
        verdict,
        certified,
    ]
