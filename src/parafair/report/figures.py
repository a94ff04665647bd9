"""Figures for print: the frontier, and people before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.audits.pictures import check_figure
from parafair.storage import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colors and shapes of the page, in the same order: a method looks the same in both.
METHOD_COLORS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#444444", "#3d9bd6", "#a67c00")
GROUP_COLORS = ("#004488", "#ddaa33", "#bb5566", "#44aa99", "#aa4499", "#117733", "#888888")
UNKNOWN = {"color": "#eef1f5", "edgecolors": "#596273", "label": "no value"}
# Attackers significantly off chance: the color, the mark, and its distance from the point.
SIDES = {"above": ("#7a3d00", "^", 9.0), "below": ("#55218a", "v", -9.0)}
# The certified leakage that is drawn beside the measured one.
CERTIFIED = "certified_release"
SHAPES = ("o", "s", "^", "D", "v", "P", "*")

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.linewidth": 0.8,
    "pdf.fonttype": 42,  # text stays text, so that it can be searched and edited
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}


def draw_frontier(data: Mapping[str, Any], path: str | Path, *, overwrite: bool = False) -> Figure:
    """Draw residual against leakage of all audited fits, and write the figure.

    Filled marks are Pareto-efficient within their method and connected. The ring is the picked
    fit. A bar is the certified leakage of a fit with noise, against another attacker: threat (b). A
    triangle above or below a mark: an attacker is significantly above or below chance. The shaded
    region is left of the limit.

    Args:
        data: What `render` takes.
        path: Where to write it: a .png, .pdf or .svg file.
        overwrite: Whether to replace an existing file.
    """
    points = [p for p in data["points"] if _known(p["residual"]) and _known(p["leakage"])]
    if not points:
        raise ValueError(
            f"none of the {len(data['points'])} points has both a residual and a leakage; audit "
            "at least one fit"
        )
    with sheet((6.5, 4.0), path, overwrite=overwrite) as figure:
        panel = figure.subplots()
        for index, method in enumerate(dict.fromkeys(p["method"] for p in data["points"])):
            _draw_method(panel, [p for p in points if p["method"] == method], method, index)
        _draw_certified(panel, data["points"], points)
        _draw_sides(panel, points)
        picked = [p for p in points if p["picked"]]
        if picked:
            xs, ys = _columns(picked, "residual", "leakage")
            ring: dict[str, Any] = {
                "color": "black",
                "markerfacecolor": "none",
                "markeredgewidth": 1.2,
            }
            panel.plot(xs, ys, "o", markersize=12, zorder=5, label="picked", **ring)
        _set_view(panel, points, data["limit"])
        panel.set_xlabel(f"residual: {data.get('measure') or '‖X - model‖ / ‖X‖'}")
        panel.set_ylabel("measured leakage, with 95 % interval")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="0.93")
        panel.set_axisbelow(True)
        figure.legend(loc="outside right upper", frameon=False)
    return figure


def draw_embeddings(
    data: Mapping[str, Any], path: str | Path, *, overwrite: bool = False
) -> Figure:
    """Draw the people in two dimensions, before and after, and write the figure.

    "After" is the picked fit, or the first efficient one if none is picked.

    Args:
        data: What `render` takes.
        path: Where to write it: a .png, .pdf or .svg file.
        overwrite: Whether to replace an existing file.
    """
    points = [point for point in data["points"] if point["embedding"]["x"]]
    if not points:
        raise ValueError("no point has an embedding to draw; add one to at least one point")
    # The first of equals, which is also the point that the page selects first.
    chosen = min(points, key=lambda point: (not point["picked"], not point["efficient"]))
    strength = "" if chosen["strength"] is None else f", strength {chosen['strength']:.3g}"
    pictures = [(f"after: {chosen['method']}{strength}", chosen["embedding"])]
    if data["before"]:
        pictures.insert(0, (f"before: {data['before']['title']}", data["before"]))
    with sheet((3.2 * len(pictures) + 0.3, 3.3), path, overwrite=overwrite) as figure:
        panels = figure.subplots(1, len(pictures), squeeze=False)[0]
        for panel, (title, embedding) in zip(panels, pictures, strict=True):
            mark = _draw_people(panel, embedding, data["groups"])
            panel.set_title(title, fontsize=9)
        handles, labels = panels[-1].get_legend_handles_labels()
        if labels:
            columns = min(len(labels), 5)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        if not data["groups"]:
            figure.colorbar(mark, ax=panels, label="sensitive feature", shrink=0.8)
    return figure


@contextmanager
def sheet(
    size: tuple[float, float], path: str | Path, *, overwrite: bool = True
) -> Iterator[Figure]:
    """Yield an empty figure without a window, and write it when the block succeeds."""
    check_figure(path, overwrite=overwrite)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)  # no window with any backend
        yield figure
        with new_file(path, overwrite=overwrite) as file:
            figure.savefig(file, dpi=300)


def _draw_method(panel: Any, points: list[Mapping[str, Any]], method: str, index: int) -> None:
    """Draw the intervals and marks of a method, and a line through its efficient points."""
    color, shape = METHOD_COLORS[index % len(METHOD_COLORS)], _shape(index)
    bars = [p for p in points if _known(p["low"]) and _known(p["high"])]
    xs, lows, highs = _columns(bars, "residual", "low", "high")
    panel.vlines(xs, lows, highs, color=color, linewidth=1.2, alpha=0.35, zorder=2)
    look = {"color": color, "marker": shape, "markersize": 5.5, "zorder": 4}
    other = [p for p in points if not p["efficient"]]
    xs, ys = _columns(other, "residual", "leakage")
    panel.plot(xs, ys, linestyle="none", markerfacecolor="white", markeredgewidth=1.1, **look)
    efficient = sorted((p for p in points if p["efficient"]), key=lambda p: p["residual"])
    xs, ys = _columns(efficient, "residual", "leakage")
    if points:  # a method without audited points is not in the legend
        look |= {"linewidth": 1.2, "markeredgecolor": "white", "markeredgewidth": 0.6}
        panel.plot(xs, ys, label=method, **look)


def _draw_certified(
    panel: Any, every: Sequence[Mapping[str, Any]], points: list[Mapping[str, Any]]
) -> None:
    """Draw the certified leakage of the fits that have one as bars, in the color of the method."""
    methods = list(dict.fromkeys(point["method"] for point in every))
    own = [point for point in points if _known(point.get(CERTIFIED))]
    look = {"s": 70, "marker": "_", "linewidths": 1.8, "zorder": 3}
    colors = [METHOD_COLORS[methods.index(p["method"]) % len(METHOD_COLORS)] for p in own]
    if own:
        xs, ys = _columns(own, "residual", CERTIFIED)
        panel.scatter(xs, ys, c=colors, **look)
        # In the legend it stands for all methods.
        panel.scatter([], [], c="0.3", label="certified (F),\nthreat (b)", **look)


def _draw_sides(panel: Any, points: list[Mapping[str, Any]]) -> None:
    """Mark the fits with an attacker significantly off chance, above and below their marks."""
    from matplotlib.transforms import ScaledTranslation

    for side, (color, mark, distance) in SIDES.items():
        own = [p for p in points if _known(p[side])]
        if not own:
            continue
        xs, ys = _columns(own, "residual", "leakage")
        shift = ScaledTranslation(0, distance / 72, panel.figure.dpi_scale_trans)
        look = {"color": color, "markersize": 4, "transform": panel.transData + shift}
        panel.plot(xs, ys, mark, label=f"an attacker is\n{side} chance", zorder=4, **look)


def _set_view(panel: Any, points: list[Mapping[str, Any]], limit: Mapping[str, Any] | None) -> None:
    """Show all points; cut off the limit if it would leave them less than half of the width."""
    left, right = min(p["residual"] for p in points), max(p["residual"] for p in points)
    names = ("leakage", "low", "high", CERTIFIED)
    ends = [p[name] for p in points for name in names if _known(p.get(name))]
    low, high = min(0.0, *ends), max(0.02, *ends)
    pairs = zip(limit["leakage"], limit["residual"], strict=True) if limit else ()
    curve = sorted((y, x) for y, x in pairs if _known(x) and _known(y))
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


def _draw_people(panel: Any, embedding: Mapping[str, Any], groups: Sequence[str]) -> Any:
    """Draw people, colored by group or by number; return the last marks drawn."""
    xs, ys, values = (_numbers(embedding[name]) for name in ("x", "y", "group"))
    look = {"s": 16, "linewidths": 0.4, "edgecolors": "white", "alpha": 0.7}
    known = (lambda value: value in range(len(groups))) if groups else isfinite
    unknown = [place for place, value in enumerate(values) if not known(value)]
    if unknown:
        panel.scatter([xs[i] for i in unknown], [ys[i] for i in unknown], **{**look, **UNKNOWN})
    mark = None if groups else panel.scatter(xs, ys, c=values, cmap="viridis", **look)
    for index, name in enumerate(groups):
        own = [place for place, group in enumerate(values) if group == index]
        look |= {"color": GROUP_COLORS[index % len(GROUP_COLORS)], "marker": _shape(index)}
        mark = panel.scatter([xs[i] for i in own], [ys[i] for i in own], label=name, **look)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_xticks([])
    panel.set_yticks([])
    panel.spines[:].set_color("0.8")
    return mark


def _shape(index: int) -> str:
    # Past the last color the shapes shift by one, so that no two methods look the same.
    return SHAPES[(index + index // len(SHAPES)) % len(SHAPES)]


def _columns(points: Sequence[Mapping[str, Any]], *names: str) -> list[list[float]]:
    return [[point[name] for point in points] for name in names]


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [nan if value is None else value for value in values]


def _known(value: float | None) -> bool:
    return value is not None and isfinite(value)
