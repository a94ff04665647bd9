"""The six figures of the paper on one sheet, with its methods and its measures only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parafair.paper.config import PAPER_METHODS, Figure, Setup
from parafair.paper.plot import AXES, LOOKS, clean, draw_points
from parafair.paper.table import Row, complete_tables
from parafair.pictures import FORMATS, sheet

OVERVIEW = "overview"


def draw_overview(setup: Setup, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the paper's figures on one sheet; those without a complete table stay empty."""
    shown = [figure for figure in setup.figures.values() if figure.kind != "rounds"]
    tables = complete_tables(folder, setup)
    paths = [folder / f"{OVERVIEW}.{name}" for name in formats]
    for path in paths:
        with sheet((7.6, 7.4), path) as page:
            panels = page.subplots(3, 2)
            for panel, figure in zip(panels.flat, shown, strict=True):
                own = [r for r in tables.get(figure.name, ()) if r["method"] in PAPER_METHODS]
                panel.set_title(f"Figure {figure.name[3:]}", fontsize=9)
                clean(panel)
                if not own:
                    panel.set_axis_off()
                elif figure.kind == "bars":
                    _bars(panel, own)
                else:
                    _curve(panel, figure, own)
    return paths


def _curve(panel: Any, figure: Figure, rows: list[Row]) -> None:
    """Draw the first run, which is all that the paper has."""
    first = [row for row in rows if row["seed"] == 0]
    for method in PAPER_METHODS:
        own = [row for row in first if row["method"] == method]
        if own:
            draw_points(panel, own, figure.axis, "unfairness", method)
    if len({row["method"] for row in first}) > 1:
        panel.legend(frameon=False)
    panel.set_xlabel(AXES[figure.axis])
    panel.locator_params(axis="x", nbins=5)
    panel.set_ylabel("unfairness")
    if figure.axis != "residual":
        panel.set_xlim(left=0)  # what goes to zero, or not
    panel.set_ylim(min(-0.05, panel.get_ylim()[0]), 0.55)


def _bars(panel: Any, rows: list[Row]) -> None:
    """Draw residual and unfairness of each method, mean and deviation of all runs."""
    keys = list(dict.fromkeys((row["method"], row["strength"]) for row in rows))
    for place, key in enumerate(keys):
        own = [row for row in rows if (row["method"], row["strength"]) == key]
        for shift, measure in ((-0.2, "residual"), (0.2, "unfairness")):
            values = [row[measure] for row in own if row[measure] is not None]
            if values:
                spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
                panel.bar(place + shift, np.mean(values), 0.38, yerr=spread,
                          color=LOOKS[key[0]][0], alpha=0.45 if measure == "residual" else 1.0,
                          error_kw={"elinewidth": 1, "capsize": 2})  # fmt: skip
    names = [method.removesuffix("-BCD") for method, _ in keys]
    twice = {name for name in names if names.count(name) > 1}
    labels = [f"{n}\n{s:g}" if n in twice else n for n, (_, s) in zip(names, keys, strict=True)]
    panel.set_xticks(range(len(keys)), labels)
    panel.set_ylabel("residual (pale), unfairness")
    panel.axhline(0, color="black", linewidth=0.8)
    panel.grid(axis="x", visible=False)
