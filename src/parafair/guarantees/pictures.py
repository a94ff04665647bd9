"""The picture of a certificate: the certified leakage of each statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.display import shortened
from parafair.guarantees.statements import rounded_up
from parafair.pictures import METHOD_COLORS, axes_for, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from parafair.guarantees.certificate import Certificate


def plot(certificate: Certificate, *, ax: Axes | None = None) -> Axes:
    """Draw the bounds of a certificate; see `Certificate.plot`."""
    statements = certificate.statements
    places = list(range(len(statements)))
    uppers = [rounded_up(statement.upper) for statement in statements]
    with axes_for(ax, (7.5, 0.42 * len(places) + 1.1)) as panel:
        color = METHOD_COLORS[0]
        panel.barh(places, uppers, height=0.5, color=color, alpha=0.35, label="certified: at most")
        estimates = [statement.estimate for statement in statements]
        panel.plot(estimates, places, "|", color=color, markersize=12, label="estimate")
        for place, upper in zip(places, uppers, strict=True):
            panel.annotate(
                f"{upper:.4f}", (upper, place), (4, 0), textcoords="offset points", va="center"
            )
        panel.set_yticks(places, [f"{s.kind}: {shortened(s.column)}" for s in statements])
        panel.set_ylim(len(places) - 0.5, -0.5)
        panel.set_xlim(0, 1.15 * max(0.1, *uppers))
        panel.set_xlabel("leakage: advantage over chance of the best possible attacker")
        panel.spines[["top", "right"]].set_visible(False)
        legend_above(panel)
    return panel
