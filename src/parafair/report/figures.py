"""Figures for print: the frontier, and people before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.frontiers.pictures import RESIDUAL, draw_fits
from parafair.pictures import draw_people, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    with sheet((6.5, 4.0), path, overwrite=overwrite) as figure:
        draw_fits(
            figure.subplots(),
            data["points"],
            limit=data["limit"],
            measure=data.get("measure") or RESIDUAL,
        )
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
            xs, ys, values = (_numbers(embedding[name]) for name in ("x", "y", "group"))
            mark = draw_people(panel, xs, ys, values, data["groups"])
            panel.set_title(title, fontsize=9)
        handles, labels = panels[-1].get_legend_handles_labels()
        if labels:
            columns = min(len(labels), 5)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        if not data["groups"]:
            figure.colorbar(mark, ax=panels, label="sensitive feature", shrink=0.8)
    return figure


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [nan if value is None else value for value in values]
