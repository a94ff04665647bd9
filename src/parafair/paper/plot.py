"""The figures, drawn from the tables only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parafair.paper.config import (
    BCD,
    FATR,
    HSIC,
    KHSIC,
    OURS,
    REMOVAL,
    Figure,
)
from parafair.paper.table import LIMITS_FILE, Row, read_rows
from parafair.pictures import FORMATS, sheet

LOOKS = {
    BCD: ("#444444", "o"),
    FATR: ("#aa4499", "s"),
    HSIC: ("#d55e00", "^"),
    KHSIC: ("#0072b2", "o"),
    REMOVAL: ("#a67c00", "P"),
    OURS: ("#009e73", "D"),
}
AXES = {
    "orthogonality": "orthogonality ||A'S||",
    "normalized_khsic": "normalized KHSIC",
    "residual": "residual",
    "unfairness": "unfairness: the paper's classifier",
    "leakage": "leakage: the strongest attacker",
}


def draw(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw a figure from its table in a folder, and return the files written."""
    rows = read_rows(folder / f"{figure.name}.csv")
    limits = [row for row in read_rows(folder / LIMITS_FILE) if row["data"] == figure.data]
    paths = [folder / f"{figure.name}.{name}" for name in formats]
    for path in paths:
        with sheet(SIZES[figure.kind], path) as page:
            DRAWN[figure.kind](page, figure, rows, limits)
    return paths


def _curve(page: Any, figure: Figure, rows: list[Row], limits: list[Row]) -> None:
    """Draw unfairness and leakage against a measure, in two panels."""
    panels = page.subplots(1, 2, sharey=True)
    for panel, measure in zip(panels, ("unfairness", "leakage"), strict=True):
        for method, own in _by_method(rows).items():
            draw_points(panel, own, figure.axis, measure, method)
        level = _floor(rows) if measure == "unfairness" else 0.0
        panel.axhline(level, color="0.4", linewidth=0.8, linestyle=":", zorder=1)
        if measure == "leakage" and figure.axis == "residual":
            _draw_limit(panel, limits)
        if figure.axis == "orthogonality":
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.set_xlabel(AXES[figure.axis])
        panel.set_title(AXES[measure], fontsize=9)
        clean(panel)
    panels[0].set_ylabel("advantage over chance (0.5)")
    _legend(page, panels[1], 3)


def draw_points(panel: Any, rows: list[Row], axis: str, measure: str, method: str) -> None:
    """Draw the first run filled and the others hollow."""
    color, marker = LOOKS[method]
    known = [row for row in rows if row[axis] is not None and row[measure] is not None]
    for first in (False, True):
        some = [row for row in known if (row["seed"] == 0) is first]
        look = {"color": color, "markersize": 8 if method == REMOVAL else 5, "zorder": 3 + first}
        panel.plot(
            [row[axis] for row in some],
            [row[measure] for row in some],
            marker=marker,
            linestyle="none",
            markerfacecolor=color if first else "white",
            markeredgewidth=0.5 if first else 0.9,
            markeredgecolor="white" if first else color,
            label=method if first else None,
            **look,
        )


def _draw_limit(panel: Any, limits: list[Row]) -> None:
    """Shade the region left of the parity limit."""
    if not limits:
        return
    left, right = panel.get_xlim()
    pairs = sorted((row["leakage"], row["residual"]) for row in limits)
    ys = [pairs[0][0] - 1, *(y for y, _ in pairs)]
    xs = [pairs[0][1], *(x for _, x in pairs)]
    low, high = panel.get_ylim()
    panel.plot(xs, ys, color="0.4", linestyle="--", linewidth=1, zorder=2, label="parity limit")
    panel.fill_betweenx(ys, min(0.0, left), xs, color="0.93", linewidth=0, zorder=0.5)
    panel.set_xlim(left, max(right, pairs[0][1] * 1.03))
    panel.set_ylim(low, high)


def _bars(page: Any, figure: Figure, rows: list[Row], limits: list[Row]) -> None:
    """Draw mean and standard deviation over the runs, by method and strength."""
    panels = page.subplots(1, 3, sharey=True)
    keys = list(dict.fromkeys((row["method"], row["strength"]) for row in rows))
    places = np.arange(len(keys))[::-1]
    for panel, measure in zip(panels, ("residual", "unfairness", "leakage"), strict=True):
        for place, (method, strength) in zip(places, keys, strict=True):
            own = [r for r in rows if (r["method"], r["strength"]) == (method, strength)]
            values = [row[measure] for row in own if row[measure] is not None]
            if not values:
                panel.annotate("undefined", (0, place), va="center", fontsize=8, color="0.4")
                continue
            spread = {"xerr": np.std(values, ddof=1)} if len(values) > 1 else {}
            panel.barh(place, np.mean(values), color=LOOKS[method][0], height=0.7, **spread,
                       error_kw={"elinewidth": 1, "capsize": 2})  # fmt: skip
        panel.set_title(AXES[measure].partition(":")[0], fontsize=9)
        clean(panel)
        panel.grid(axis="y", visible=False)
        panel.axvline(0, color="black", linewidth=0.8)
    panels[1].axvline(_floor(rows), color="0.4", linewidth=0.8, linestyle=":")
    panels[1].set_xlabel("the paper's classifier")
    panels[2].set_xlabel("the strongest attacker")
    if limits:
        least = max(row["residual"] for row in limits)
        panels[0].axvline(least, color="0.4", linewidth=1, linestyle="--")
        panels[0].set_xlabel("dashed: limit at exact parity")
    names = [m if s is None else f"{m}  {s:g}" for m, s in keys]
    panels[0].set_yticks(places, names)


def _rounds(page: Any, figure: Figure, rows: list[Row], limits: list[Row]) -> None:
    """Draw measures against the number of iterations: means, and deviations as bands."""
    panel = page.subplots()
    lengths = sorted({row["rounds"] for row in rows})
    lines = (
        ("normalized_khsic", "normalized KHSIC", "#0072b2", "o"),
        ("residual", "residual", "#444444", "s"),
        ("unfairness", "unfairness: the paper's classifier", "#d55e00", "^"),
        ("leakage", "leakage: the strongest attacker", "#aa4499", "D"),
    )
    for measure, label, color, marker in lines:
        found = {
            n: [r[measure] for r in rows if r["rounds"] == n and r[measure] is not None]
            for n in lengths
        }
        known = [n for n in lengths if found[n]]
        means = np.array([np.mean(found[n]) for n in known])
        spread = np.array([np.std(found[n], ddof=1) if len(found[n]) > 1 else 0 for n in known])
        panel.plot(known, means, color=color, marker=marker, markersize=4.5, label=label)
        panel.fill_between(known, means - spread, means + spread, color=color, alpha=0.15, lw=0)
    panel.set_xscale("log")
    panel.set_xticks(lengths, [str(n) for n in lengths])
    panel.minorticks_off()
    panel.set_xlabel("iterations of Algorithm 1")
    panel.axhline(0, color="0.4", linewidth=0.8, linestyle=":")
    clean(panel)
    _legend(page, panel, 2)


def _floor(rows: list[Row]) -> float:
    """Return the unfairness of an embedding that reveals nothing."""
    known = [row["floor"] for row in rows if row["floor"] is not None]
    return float(np.mean(known)) if known else 0.0


def _by_method(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def clean(panel: Any) -> None:
    """Leave two spines and a pale grid."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="0.93")
    panel.set_axisbelow(True)


def _legend(page: Any, panel: Any, columns: int) -> None:
    handles, labels = panel.get_legend_handles_labels()
    page.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


SIZES = {"curve": (7.2, 3.6), "bars": (7.6, 3.0), "rounds": (6.0, 3.8)}
DRAWN: dict[str, Callable[[Any, Figure, list[Row], list[Row]], None]] = {
    "curve": _curve,
    "bars": _bars,
    "rounds": _rounds,
}
