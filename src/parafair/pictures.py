"""What all pictures share: colors, shapes, people as dots, files. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parafair.arguments import as_path
from parafair.errors import shown
from parafair.storage import check_new_file, new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")

# The colors and shapes of the page, in the same order: a method looks the same in both.
METHOD_COLORS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#444444", "#3d9bd6", "#a67c00")
GROUP_COLORS = ("#004488", "#b5851a", "#bb5566", "#2e8f7f", "#aa4499", "#117733", "#888888")
UNKNOWN = {"color": "#eef1f5", "edgecolors": "#596273", "label": "no value"}
SHAPES = ("o", "s", "^", "D", "v", "P", "*")

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.linewidth": 0.8,
    "pdf.fonttype": 42,  # text stays text, so that it can be searched and edited
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}


def check_matplotlib() -> None:
    """Raise if nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("drawing needs matplotlib; install it with: pip install 'parafair[plot]'")


def check_figure(path: str | Path, *, overwrite: bool, name: str = "path") -> None:
    """Raise if a figure cannot be drawn or written; call it before any work is done.

    Args:
        path: Where it will be written.
        overwrite: Whether a file that exists is replaced.
        name: What users call the path.
    """
    suffixes = [f".{each}" for each in FORMATS]
    if as_path(name, path).suffix.lower() not in suffixes:
        raise ValueError(f"{name} must end in {', '.join(suffixes)}, got {str(path)!r}")
    check_matplotlib()
    check_new_file(path, overwrite=overwrite)


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


@contextmanager
def axes_for(ax: Axes | None, size: tuple[float, float]) -> Iterator[Axes]:
    """Yield the given axes, or those of a new figure, which a notebook shows.

    Args:
        ax: Axes of the caller; None for new ones.
        size: Width and height of a new figure, in inches.
    """
    check_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        many = isinstance(ax, (list, tuple)) or hasattr(ax, "flat")
        remedy = "one of them" if many else "what matplotlib.pyplot.subplots returns, or None"
        raise TypeError(f"ax must be one Axes of matplotlib, got {shown(ax)}; pass {remedy}")
    yield ax
    as_written(ax)


def as_written(panel: Any) -> None:
    """Show the text on axes as it is: a dollar sign in a name is a dollar sign."""
    from matplotlib.text import Text

    for text in panel.findobj(Text):
        if text.get_text():
            text.set_parse_math(False)


def legend_beside(panel: Any, title: str = "") -> None:
    """Put the legend on the right of the axes."""
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
    panel.legend(**place, frameon=False, fontsize=9, title=title or None)


def legend_above(panel: Any, lines: float = 0.5) -> None:
    """Put the legend above the axes, this many lines of text away."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": lines}
    panel.legend(**place, frameon=False, fontsize=9, ncols=4)


def draw_people(
    panel: Any,
    xs: Sequence[float],
    ys: Sequence[float],
    values: Sequence[float],
    groups: Sequence[str],
) -> Any:
    """Draw people, colored by group or by number; return the last marks drawn.

    Args:
        panel: Where to draw.
        xs: Their places, from left to right.
        ys: Their places, from bottom to top.
        values: The number of the group of each, or a number; NaN if it is not known.
        groups: Names of the groups; none for numbers.
    """
    look = {"s": 16, "linewidths": 0.4, "edgecolors": "white", "alpha": 0.7}
    known = (lambda value: value in range(len(groups))) if groups else isfinite
    unknown = [place for place, value in enumerate(values) if not known(value)]
    if unknown:
        panel.scatter([xs[i] for i in unknown], [ys[i] for i in unknown], **{**look, **UNKNOWN})
    mark = None if groups else panel.scatter(xs, ys, c=values, cmap="viridis", **look)
    for index, name in enumerate(groups):
        own = [place for place, group in enumerate(values) if group == index]
        look |= {"color": GROUP_COLORS[index % len(GROUP_COLORS)], "marker": shape_of(index)}
        mark = panel.scatter([xs[i] for i in own], [ys[i] for i in own], label=name, **look)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_xticks([])
    panel.set_yticks([])
    panel.spines[:].set_color("0.8")
    return mark


def shape_of(index: int) -> str:
    """Return the mark of a method or group."""
    # Past the last color the shapes shift by one, so that no two methods look the same.
    return SHAPES[(index + index // len(SHAPES)) % len(SHAPES)]
