"""The picture of a frontier: residual against leakage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from parafair.losses import is_squared
from parafair.pictures import METHOD_COLORS, axes_for, legend_beside, shape_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from parafair.frontiers.point import Point
    from parafair.frontiers.result import Frontier

# Attackers significantly off chance: the color, the mark, and its distance from the point.
SIDES = {"above": ("#7a3d00", "^", 9.0), "below": ("#55218a", "v", -9.0)}
# The certified leakage that is drawn beside the measured one.
CERTIFIED = "certified_release"
RESIDUAL = "‖X - model‖ / ‖X‖"


def plot(frontier: Frontier, *, max_leakage: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw residual against leakage; see `Frontier.plot`."""
    picked = None if max_leakage is None else frontier.best_or_none(max_leakage)
    rows = [
        {**row, **off_chance(point), "picked": point is picked}
        for point, row in zip(frontier.points, frontier.rows(), strict=True)
    ]
    with axes_for(ax, (7.5, 4.0)) as panel:
        measure = measure_of(frontier) or RESIDUAL
        draw_fits(panel, rows, limit=limit_of(frontier), measure=measure)
        legend_beside(panel)
    return panel


def off_chance(point: Point) -> dict[str, float | None]:
    """Return how far attackers are significantly above and below chance, at most; None if none."""
    rows = () if point.audit is None else point.audit.rows
    scores = [row for row in rows if row.section == "attackers"]
    above = [row.advantage for row in scores if row.above_chance]
    below = [-row.advantage for row in scores if row.below_chance]
    return {"above": max(above, default=None), "below": max(below, default=None)}


def limit_of(frontier: Frontier) -> dict[str, list[float]] | None:
    """Return the least residual at each leakage; None if it is known for exact parity at most."""
    if len(frontier.limit) < 2:
        return None
    leakages, residuals = zip(*frontier.limit, strict=True)
    return {"leakage": list(leakages), "residual": list(residuals)}


def measure_of(frontier: Frontier) -> str | None:
    """Return what the residuals of a frontier are; None for the relative residual."""
    losses = {training.loss.measure: training.loss for training in frontier.training.values()}
    others = [name for name, loss in losses.items() if not is_squared(loss)]
    if not others:
        return None
    return f"a {' or '.join(others)}, relative to the best constant"


def draw_fits(
    panel: Any,
    every: Sequence[Mapping[str, Any]],
    *,
    limit: Mapping[str, Any] | None,
    measure: str = RESIDUAL,
) -> None:
    """Draw all audited fits; see `Frontier.plot`.

    Args:
        panel: Where to draw.
        every: All fits, as rows of a table.
        limit: The least residual at each leakage; None if it is not known.
        measure: What the residual is.
    """
    points = [p for p in every if known(p["residual"]) and known(p["leakage"])]
    if not points:
        raise ValueError(
            f"none of the {len(every)} points has both a residual and a leakage; audit at least "
            "one fit"
        )
    for index, method in enumerate(dict.fromkeys(p["method"] for p in every)):
        _draw_method(panel, [p for p in points if p["method"] == method], method, index)
    _draw_certified(panel, every, points)
    _draw_sides(panel, points)
    picked = [p for p in points if p["picked"]]
    if picked:
        xs, ys = columns(picked, "residual", "leakage")
        ring: dict[str, Any] = {
            "color": "black",
            "markerfacecolor": "none",
            "markeredgewidth": 1.2,
        }
        panel.plot(xs, ys, "o", markersize=12, zorder=5, label="picked", **ring)
    _set_view(panel, points, limit)
    panel.set_xlabel(f"residual: {measure}")
    panel.set_ylabel("measured leakage, with 95 % interval")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="0.93")
    panel.set_axisbelow(True)


def _draw_method(panel: Any, points: list[Mapping[str, Any]], method: str, index: int) -> None:
    """Draw the intervals and marks of a method, and a line through its efficient points."""
    color, shape = METHOD_COLORS[index % len(METHOD_COLORS)], shape_of(index)
    bars = [p for p in points if known(p["low"]) and known(p["high"])]
    xs, lows, highs = columns(bars, "residual", "low", "high")
    panel.vlines(xs, lows, highs, color=color, linewidth=1.2, alpha=0.35, zorder=2)
    look = {"color": color, "marker": shape, "markersize": 5.5, "zorder": 4}
    other = [p for p in points if not p["efficient"]]
    xs, ys = columns(other, "residual", "leakage")
    panel.plot(xs, ys, linestyle="none", markerfacecolor="white", markeredgewidth=1.1, **look)
    efficient = sorted((p for p in points if p["efficient"]), key=lambda p: p["residual"])
    xs, ys = columns(efficient, "residual", "leakage")
    if points:  # a method without audited points is not in the legend
        look |= {"linewidth": 1.2, "markeredgecolor": "white", "markeredgewidth": 0.6}
        panel.plot(xs, ys, label=method, **look)


def _draw_certified(
    panel: Any, every: Sequence[Mapping[str, Any]], points: list[Mapping[str, Any]]
) -> None:
    """Draw the certified leakage of the fits that have one as bars, in the color of the method."""
    methods = list(dict.fromkeys(point["method"] for point in every))
    own = [point for point in points if known(point.get(CERTIFIED))]
    look = {"s": 70, "marker": "_", "linewidths": 1.8, "zorder": 3}
    colors = [METHOD_COLORS[methods.index(p["method"]) % len(METHOD_COLORS)] for p in own]
    if own:
        xs, ys = columns(own, "residual", CERTIFIED)
        panel.scatter(xs, ys, c=colors, **look)
        # In the legend it stands for all methods.
        panel.scatter([], [], c="0.3", label="certified (F),\nthreat (b)", **look)


def _draw_sides(panel: Any, points: list[Mapping[str, Any]]) -> None:
    """Mark the fits with an attacker significantly off chance, above and below their marks."""
    from matplotlib.transforms import ScaledTranslation

    for side, (color, mark, distance) in SIDES.items():
        own = [p for p in points if known(p[side])]
        if not own:
            continue
        xs, ys = columns(own, "residual", "leakage")
        shift = ScaledTranslation(0, distance / 72, panel.figure.dpi_scale_trans)
        look = {"color": color, "markersize": 4, "transform": panel.transData + shift}
        panel.plot(xs, ys, mark, label=f"an attacker is\n{side} chance", zorder=4, **look)


def _set_view(panel: Any, points: list[Mapping[str, Any]], limit: Mapping[str, Any] | None) -> None:
    """Show all points; cut off the limit if it would leave them less than half of the width."""
    left, right = min(p["residual"] for p in points), max(p["residual"] for p in points)
    names = ("leakage", "low", "high", CERTIFIED)
    ends = [p[name] for p in points for name in names if known(p.get(name))]
    low, high = min(0.0, *ends), max(0.02, *ends)
    pairs = zip(limit["leakage"], limit["residual"], strict=True) if limit else ()
    curve = sorted((y, x) for y, x in pairs if known(x) and known(y))
    if curve:
        span = right - left or 0.1 * abs(right) or 1.0
        bounds = [x for _, x in curve]
        edge = min(*bounds, left) - span
        left = min(left, max(min(bounds), left - span))
        right = max(right, min(max(bounds), right + span / 2))
        curve.insert(0, (low - (high - low), bounds[0]))  # less leakage costs no less
        ys, xs = [y for y, _ in curve], [x for _, x in curve]
        panel.fill_betweenx(ys, edge, xs, color="0.9", linewidth=0, zorder=0.5)
        panel.plot(xs, ys, color="0.4", linestyle="--", linewidth=1, zorder=1, label="limit")
    across, up = 0.05 * (right - left) or 0.05, 0.05 * (high - low)
    panel.set_xlim(left - across, right + across)
    panel.set_ylim(low - up, high + up)


def columns(points: Sequence[Mapping[str, Any]], *names: str) -> list[list[float]]:
    """Return some columns of a table of fits."""
    return [[point[name] for point in points] for name in names]


def known(value: float | None) -> bool:
    """Return whether a number is there."""
    return value is not None and isfinite(value)
