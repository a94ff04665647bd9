"""The picture of an audit: every attacker's advantage over chance, with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.arguments import flag, instance_of, one_of
from parafair.audits.inputs import INPUTS
from parafair.audits.result import ACCURACY, R_SQUARED, Audit, Measure, ordered
from parafair.pictures import axes_for, check_figure, check_matplotlib, legend_above
from parafair.storage import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's blue, orange and green, which color-blind readers can distinguish.
COLORS = dict(zip(INPUTS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
SHIFTS = (-0.25, 0.0, 0.25)
UNITS = {ACCURACY: "balanced accuracy above chance", R_SQUARED: "R squared"}


def draw(audit: Audit, path: str | Path | None = None, *, overwrite: bool = False) -> Figure:
    """Draw the attackers of every feature as dots on their simultaneous intervals.

    Args:
        audit: The audit to draw.
        path: A .png, .pdf or .svg file to write; None writes nothing.
        overwrite: Whether to replace a file of that name.
    """
    instance_of("audit", audit, Audit, "pass what audit returns")
    check_matplotlib()
    flag("overwrite", overwrite)
    if path is not None:
        check_figure(path, overwrite=overwrite)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    features = ordered(row.feature for row in audit.attackers)
    rows = {name: [r for r in audit.attackers if r.feature == name] for name in features}
    heights = [len(ordered(r.model for r in rows[name])) + 3.2 for name in features]
    figure = Figure(figsize=(7.5, 0.38 * sum(heights) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)  # never opens a window
    panels = figure.subplots(len(features), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, name in zip(panels, features, strict=True):
        leakage = next(r for r in audit.rows if (r.feature, r.section) == (name, "leakage"))
        _draw_feature(panel, rows[name], leakage)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    if path is not None:
        with new_file(path, overwrite=overwrite) as file:
            figure.savefig(file, dpi=150)
    return figure


def plot(audit: Audit, *, feature: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the attackers of one feature; see `Audit.plot`."""
    features = ordered(row.feature for row in audit.attackers)
    leakages = {r.feature: r for r in audit.rows if r.section == "leakage"}
    name = max(features, key=lambda each: leakages[each].value) if feature is None else feature
    one_of("feature", name, features)
    rows = [row for row in audit.attackers if row.feature == name]
    height = 0.38 * (len(ordered(row.model for row in rows)) + 4.5)
    with axes_for(ax, (7.5, height)) as panel:
        _draw_feature(panel, rows, leakages[name])
        legend_above(panel, lines=2)
    return panel


def _draw_feature(panel: Any, rows: list[Measure], leakage: Measure) -> None:
    """Draw one feature: one line per attacker and input, and the leakage as a band."""
    models = ordered(row.model for row in rows)
    panel.axvspan(leakage.low, leakage.high, color="0.9", zorder=0, label="leakage, 95 % interval")
    panel.axvline(leakage.value, color="0.55", linewidth=1, linestyle="--", zorder=1)
    panel.axvline(0, color="black", linewidth=1, zorder=1)
    for form, shift in zip(INPUTS, SHIFTS, strict=True):
        own = [row for row in rows if row.input == form]
        if not own:  # an attacker may be tried on some inputs only
            continue
        places = [models.index(row.model) + shift for row in own]
        chance = own[0].chance or 0.0
        lows = [(row.value if row.low is None else row.low) - chance for row in own]
        highs = [(row.value if row.high is None else row.high) - chance for row in own]
        color = COLORS[form]
        panel.hlines(places, lows, highs, color=color, linewidth=4, alpha=0.3, zorder=2)
        panel.plot([r.advantage for r in own], places, "o", color=color, markersize=4.5, label=form)
    panel.set_yticks(range(len(models)), models)
    panel.set_ylim(len(models) - 0.4, -0.6)
    panel.set_title(f"{rows[0].feature}: leakage {leakage.value:.3f}", loc="left", fontsize=10)
    panel.set_xlabel(UNITS[rows[0].measure], fontsize=9)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.grid(axis="x", color="0.93", zorder=0)
    panel.set_axisbelow(True)
    # Cut the axis: poor regressors reach far below zero.
    ends = [(end or 0.0) - (r.chance or 0.0) for r in rows for end in (r.low, r.high)]
    left, right = max(-1.0, min(-0.1, *ends)), max(0.1, *ends)
    margin = 0.03 * (right - left)
    panel.set_xlim(left - margin, right + margin)
