"""The files of a report: the page, and the figures in the same folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parafair.arguments import as_path, instance_of, items, one_of
from parafair.frontiers import Frontier
from parafair.pictures import FORMATS, check_figure
from parafair.report.content import content
from parafair.report.figures import draw_embeddings, draw_frontier
from parafair.report.html import render
from parafair.storage import check_new_file, new_files, write_text


def write_report(
    frontier: Frontier,
    path: str | Path,
    *,
    title: str = "Fit and fairness",
    max_leakage: float = 0.05,
    guarantee: str | None = None,
    max_certified: float | None = None,
    formats: Sequence[str] = (),
    overwrite: bool = False,
) -> list[Path]:
    """Write a report: one HTML page that needs no network, and figures for print if wanted.

    Args:
        frontier: The fits to report.
        path: The HTML file to write.
        title: The heading of the page.
        max_leakage: The largest leakage allowed. It decides the verdict of each fit
            (`Audit.verdict`) and which fit is shown first (`Frontier.best`).
        guarantee: As in `Frontier.best`: "release" or "matrix" if the fit that is shown first must
            also be certified.
        max_certified: As in `Frontier.best`: the largest certified leakage.
        formats: Formats of the figures, some of "png", "pdf" and "svg". The figures are called
            frontier and embeddings and are written to the folder of the page.
        overwrite: Whether to replace existing files.

    Returns:
        The files written, the page first.
    """
    instance_of("frontier", frontier, Frontier, "use parafair.frontier or frontiers.load")
    instance_of("title", title, str, "pass a line of text")
    page = as_path("path", path)
    formats = [
        one_of("each of formats", end, FORMATS) for end in items("formats", formats, "names")
    ]
    draws = {"frontier": draw_frontier, "embeddings": draw_embeddings}
    figures = {page.with_name(f"{n}.{end}"): draw for end in formats for n, draw in draws.items()}
    check_new_file(page, overwrite=overwrite)
    for figure in figures:
        check_figure(figure, overwrite=overwrite)
    shown = content(
        frontier,
        title=title,
        max_leakage=max_leakage,
        guarantee=guarantee,
        max_certified=max_certified,
    )
    with new_files([page, *figures], overwrite=overwrite) as beside:
        write_text(beside[page], render(shown))
        for figure, draw in figures.items():
            draw(shown, beside[figure])
    return [page, *figures]
