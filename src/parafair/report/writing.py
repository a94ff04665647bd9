"""Files of a report: the page and the figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parafair.frontiers import Frontier
from parafair.report.content import content
from parafair.report.figures import draw_embeddings, draw_frontier
from parafair.report.html import render
from parafair.storage import check_new_file, write_text

FORMATS = ("png", "pdf", "svg")


def write_report(
    frontier: Frontier,
    page: str | Path,
    *,
    title: str = "Fit and fairness",
    leakage: float = 0.05,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write one page that opens without a network, and figures if asked for.

    Args:
        frontier: What was found.
        page: The file to write; an earlier report there is replaced.
        title: Its heading.
        leakage: The point with the least residual at this leakage is shown first.
        formats: Figures are drawn beside the page in each of "png", "pdf" and "svg".

    Returns:
        The files written.
    """
    page = Path(page)
    check_new_file(page, overwrite=True)
    shown = content(frontier, title=title, leakage=leakage)
    written = [page]
    write_text(page, render(shown))
    for name in formats:
        for draw, stem in ((draw_frontier, "frontier"), (draw_embeddings, "embeddings")):
            figure = page.with_name(f"{stem}.{name}")
            draw(shown, figure)
            written.append(figure)
    return written
