"""Objects in a notebook: escaped HTML with tables and small drawings, without scripts or requests.

Drawings are inline SVG in the color of the surrounding text, so they suit light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10
from typing import TypeAlias

# Okabe and Ito's blue, a little lighter: readable on white and on black.
BLUE = "#2f86c9"
# Longer labels are cut; the title of a cell has the whole label.
LONGEST = 40
# Columns of a terminal: what is printed is at most so wide.
TERMINAL = 80

STYLE = """<style>
.parafair-view { font-size: 13px; line-height: 1.45; max-width: 60em; }
.parafair-view p { margin: 0.3em 0; }
.parafair-view table { border-collapse: collapse; margin: 0.4em 0 0.6em; font-size: inherit;
  color: inherit; border: none; display: block; overflow-x: auto; }
.parafair-view th, .parafair-view td { padding: 0.15em 0.9em 0.15em 0; border: none;
  text-align: left !important; vertical-align: middle; background: none; white-space: nowrap; }
.parafair-view thead th { font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, 0.6); }
.parafair-view tbody th { font-weight: 400; opacity: 0.8; }
.parafair-view tr { background: none !important; }
.parafair-view .number { text-align: right !important; font-variant-numeric: tabular-nums; }
.parafair-view .chosen { font-weight: 600; }
.parafair-view summary { cursor: pointer; }
.parafair-view ul { margin: 0.2em 0; padding-left: 1.4em; }
.parafair-view svg { vertical-align: middle; overflow: visible; }
</style>"""


@dataclass(frozen=True)
class Html:
    """Markup that is safe to show; all other text is escaped."""

    markup: str

    def __str__(self) -> str:
        return self.markup


Cell: TypeAlias = "Html | str | float | int | None"


def view(title: str, *parts: Html) -> str:
    """Return the HTML of an object: a title and what follows."""
    body = "".join(map(str, parts))
    return f'{STYLE}<div class="parafair-view"><p><b>{escape(title)}</b></p>{body}</div>'


def paragraph(text: str) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{escape(text)}</p>")


def folded(summary: str, sentences: Iterable[str]) -> Html:
    """Return sentences that are shown on a click; nothing if there are none."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    if not items:
        return Html("")
    return Html(f"<details><summary>{escape(summary)}</summary><ul>{items}</ul></details>")


def nested(summary: str, *parts: Html) -> Html:
    """Return parts that are shown on a click."""
    body = "".join(map(str, parts))
    return Html(f"<details><summary>{escape(summary)}</summary>{body}</details>")


def table(
    rows: Iterable[Sequence[Cell]], *, header: Sequence[str] = (), chosen: int | None = None
) -> Html:
    """Return a table; the first cell of a row names it.

    Args:
        rows: The cells. None is empty; a column of nothing else is left out.
        header: Names of the columns, whose numbers are aligned on the right; without them the rows
            are names and values.
        chosen: The number of a row to emphasize.
    """
    every = [list(row) for row in rows]
    width = max((len(row) for row in every), default=0)
    used = [column for column in range(width) if any(row[column] is not None for row in every)]
    numeric = {
        column
        for column in used[1:]
        if header and any(isinstance(row[column], (int, float)) for row in every)
    }
    aligned = {column: " class=number" if column in numeric else "" for column in used}
    decimals = {column: _decimals([row[column] for row in every]) for column in numeric}
    body = ""
    for place, row in enumerate(every):
        first, *others = used
        cells = "".join(
            f"<td{aligned[column]}>{_cell(row[column], decimals.get(column))}</td>"
            for column in others
        )
        emphasis = " class=chosen" if place == chosen else ""
        body += f'<tr{emphasis}><th scope="row">{_cell(row[first])}</th>{cells}</tr>'
    names = [f'<th scope="col"{aligned[c]}>{escape(header[c])}</th>' for c in used if header]
    head = f"<thead><tr>{''.join(names)}</tr></thead>" if names else ""
    return Html(f"<table>{head}<tbody>{body}</tbody></table>")


def _decimals(values: Iterable[Cell]) -> int | None:
    """Return how many decimals the numbers of a column need; None if some are very small or large.

    The largest number has four digits that count, and the smallest two.
    """
    sizes = [abs(value) for value in values if isinstance(value, (int, float)) and value]
    if not all(1e-4 <= size < 1e6 for size in sizes):  # also for NaN
        return None
    if all(size == int(size) for size in sizes):
        return 0
    return max(0, 3 - floor(log10(max(sizes))), 1 - floor(log10(min(sizes))))


def _cell(value: Cell, decimals: int | None = None) -> str:
    if value is None:
        return ""
    if isinstance(value, Html):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}" if decimals is None else f"{value:.{decimals}f}"
    if isinstance(value, int):
        return f"{value:,}"
    if len(value) > LONGEST:
        return f'<span title="{escape(value)}">{escape(shortened(value))}</span>'
    return escape(value)


def shortened(label: str) -> str:
    """Return a label of at most `LONGEST` characters."""
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def drawing(width: float, height: float, label: str, *marks: str) -> Html:
    """Return an SVG of marks, with a label for readers who do not see it."""
    return Html(
        f'<svg role="img" aria-label="{escape(label)}" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(marks)}</svg>'
    )


def bar(share: float, label: str, width: float = 120) -> Html:
    """Return a bar of a share of the width."""
    filled = width * min(max(share, 0.0), 1.0) if isfinite(share) else 0.0
    frame = f'<rect y="3" width="{width:g}" height="8" fill="currentColor" opacity="0.15"/>'
    own = f'<rect y="3" width="{filled:.4g}" height="8" fill="{BLUE}"/>'
    return drawing(width, 14, label, frame, own)


def interval(
    value: float, ends: tuple[float, float], span: tuple[float, float], label: str
) -> Html:
    """Return a value on its interval, with a line at zero.

    Args:
        value: The value.
        ends: Lower and upper end of the interval.
        span: What the left and the right edge stand for; both ends of the interval are cut there.
        label: What it shows.
    """
    width = 150.0
    low, high = (_scale(end, span, width) for end in ends)
    at, zero = _scale(value, span, width), _scale(0.0, span, width)
    line = f'<line x1="{zero:.4g}" x2="{zero:.4g}" y1="0" y2="14" stroke="currentColor"/>'
    band = f'<line x1="{low:.4g}" x2="{high:.4g}" y1="7" y2="7" stroke="{BLUE}" '
    band += 'stroke-width="4" stroke-opacity="0.45"/>'
    dot = f'<circle cx="{at:.4g}" cy="7" r="3.5" fill="{BLUE}"/>'
    return drawing(width, 14, label, line, band, dot)


def curve(values: Sequence[float], label: str, width: float = 160, height: float = 36) -> Html:
    """Return a line through values at equal distances, from their smallest to their largest."""
    known = [value for value in values if isfinite(value)]
    if len(known) < 2:
        return Html("")
    span = (max(known), min(known))  # large values are at the top
    step = width / (len(known) - 1)
    places = (
        f"{place * step:.4g},{2 + _scale(value, span, height - 4):.4g}"
        for place, value in enumerate(known)
    )
    line = f'<polyline points="{" ".join(places)}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
    return drawing(width, height, label, line)


def histogram(counts: Sequence[int], label: str, height: float = 36) -> Html:
    """Return bars of counts."""
    most = max(max(counts), 1)
    bars = (
        f'<rect x="{6 * place}" y="{height * (1 - count / most):.4g}" width="5" '
        f'height="{height * count / most:.4g}" fill="{BLUE}"/>'
        for place, count in enumerate(counts)
    )
    return drawing(6 * len(counts), height, label, *bars)


@dataclass(frozen=True)
class Dots:
    """Points of a scatter plot that look alike; joined by a line if they are connected."""

    places: Sequence[tuple[float, float]]
    color: str = BLUE
    filled: bool = True
    connected: bool = False


def scatter(groups: Sequence[Dots], label: str, *, axes: tuple[str, str]) -> Html:
    """Return a small scatter plot whose vertical axis begins at zero, or below.

    Args:
        groups: The points, in order of drawing.
        label: What it shows.
        axes: What the axes are.
    """
    known = [place for group in groups for place in group.places if all(map(isfinite, place))]
    if not known:
        return Html("")
    width, height, left, bottom = 380.0, 200.0, 46.0, 34.0
    across, up = _padded([x for x, _ in known]), _padded([0.0, *(y for _, y in known)])
    marks = [
        f'<path d="M{left} 4 V{height - bottom} H{width}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.5"/>',
        _text(left, height - bottom + 14, f"{across[0]:.3g}", "start"),
        _text(width, height - bottom + 14, f"{across[1]:.3g}", "end"),
        _text(left - 4, height - bottom, f"{up[0]:.2f}", "end"),
        _text(left - 4, 12, f"{up[1]:.2f}", "end"),
        _text((left + width) / 2, height - 4, axes[0], "middle"),
        f'<text transform="translate(11 {(height - bottom) / 2:g}) rotate(-90)" font-size="11" '
        f'fill="currentColor" text-anchor="middle">{escape(axes[1])}</text>',
    ]
    for group in groups:
        own = [
            (left + _scale(x, across, width - left), 4 + _scale(y, up[::-1], height - bottom - 4))
            for x, y in group.places
            if isfinite(x) and isfinite(y)
        ]
        if group.connected:
            line = " ".join(f"{x:.4g},{y:.4g}" for x, y in own)
            marks.append(f'<polyline points="{line}" fill="none" stroke="{group.color}"/>')
        fill = group.color if group.filled else "none"
        marks += (
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="3" fill="{fill}" stroke="{group.color}"/>'
            for x, y in own
        )
    return drawing(width, height, label, *marks)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="11" fill="currentColor" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of values with a margin."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    # A margin does not cross zero: there are no negative residuals.
    return low - margin if low < 0 else max(low - margin, 0.0), high + margin


def _scale(value: float, span: tuple[float, float], width: float) -> float:
    """Return where a value is on an axis of this width, cut at its ends."""
    first, last = span
    share = (value - first) / (last - first) if last != first else 0.5
    return width * min(max(share, 0.0), 1.0)
