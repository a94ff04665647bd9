"""The whole reproduction: tables, pictures, verdicts and the page."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from parafair.errors import ParafairWarning, unknown_choice
from parafair.paper.config import FULL, NAMES, Scale, Setup
from parafair.paper.overview import draw_overview
from parafair.paper.page import write_page
from parafair.paper.plot import draw
from parafair.paper.readings import Readings
from parafair.paper.run import make_tables
from parafair.paper.table import SETTINGS_FILE
from parafair.paper.verdict import Claim
from parafair.paper.work import OnProgress
from parafair.pictures import FORMATS
from parafair.storage import check_new_file, read_json

PAGE = "reproduction.md"


@dataclass(frozen=True)
class Reproduction:
    """The result of `reproduce`.

    Attributes:
        claims: The claims whose tables are complete, with verdicts.
        page: The page.
        pictures: The pictures.
        left_out: Figures that could not be made, with the reason.
    """

    claims: tuple[Claim, ...]
    page: Path
    pictures: tuple[Path, ...]
    left_out: Mapping[str, str]


def reproduce(  # noqa: PLR0913  (each argument is a setting of its own)
    names: Sequence[str] = NAMES,
    *,
    out: str | Path,
    readings: Readings | None = None,
    scale: Scale = FULL,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
    n_jobs: int | None = None,
    formats: Sequence[str] = FORMATS,
    page: str | Path | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Reproduction:
    """Reproduce figures of the paper: tables, pictures and a page with verdicts.

    Rows that the folder already has are not made again. So the same call continues an interrupted
    run, and it adds the pictures and limits to tables made without matplotlib or POT.

    Args:
        names: Figures, among `NAMES`.
        out: Folder for tables and pictures.
        readings: Readings of the paper.
        scale: Sizes of data and grids: `FULL` are the paper's, `QUICK` checks that all works.
        data: Folder with `cmc/cmc.data`; None is PARAFAIR_DATA, or a download.
        device: Where to fit, such as "cuda".
        n_jobs: Processes for fits and audits.
        formats: Formats of the pictures, some of "png", "pdf" and "svg".
        page: The page to write; by default reproduction.md in the folder.
        overwrite: Whether `page` may replace a file.
        on_progress: As in `make_tables`.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown_choice("formats", name, FORMATS)
    if page is not None:
        check_new_file(page, overwrite=overwrite)
    tables = make_tables(
        names, out=out, readings=readings, scale=scale, data=data, device=device,
        n_jobs=n_jobs, on_progress=on_progress,
    )  # fmt: skip
    setup = Setup.from_record(read_json(tables.folder / SETTINGS_FILE)["settings"])
    pictures: list[Path] = []
    try:
        for name in tables.figures:
            pictures += draw(setup.figures[name], tables.folder, formats)
        pictures += draw_overview(setup, tables.folder, formats)
    except ImportError as error:
        warnings.warn(
            f"the pictures are left out ({error}); run the command again to draw them",
            ParafairWarning,
            stacklevel=2,
        )
    target = tables.folder / PAGE if page is None else Path(page)
    claims = write_page(tables.folder, target)
    return Reproduction(tuple(claims), target, tuple(pictures), tables.left_out)
