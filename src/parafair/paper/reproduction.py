"""All of it: tables, pictures, verdicts and the page."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from parafair.errors import ParafairWarning, unknown_choice
from parafair.paper.config import NAMES, Scale, Setup
from parafair.paper.overview import draw_overview
from parafair.paper.page import write_page
from parafair.paper.plot import FORMATS, draw
from parafair.paper.readings import Readings
from parafair.paper.run import OnProgress, make_tables
from parafair.paper.table import SETTINGS_FILE
from parafair.paper.verdict import Claim
from parafair.storage import read_json

PAGE = "reproduction.md"


@dataclass(frozen=True)
class Reproduction:
    """What was made.

    Attributes:
        claims: The claims of the paper whose tables are in the folder, with verdicts.
        page: The page.
        pictures: The pictures drawn.
        left_out: Why figures are not there, by name.
    """

    claims: tuple[Claim, ...]
    page: Path
    pictures: tuple[Path, ...]
    left_out: Mapping[str, str]


def reproduce(
    names: Sequence[str] = NAMES,
    *,
    out: str | Path,
    quick: bool = False,
    readings: Readings | None = None,
    scale: Scale | None = None,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
    n_jobs: int | None = None,
    formats: Sequence[str] = FORMATS,
    page: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Reproduction:
    """Reproduce figures of the paper: tables, pictures and a page with verdicts.

    Rows that are in the tables of the folder already are not made again, so an interrupted run
    goes on where it was, and tables made on a machine without matplotlib or POT are completed on
    another one.

    Args:
        names: Figures, among `NAMES`.
        out: Folder for tables and pictures.
        quick: Small data, few points and few rounds, to see that everything works.
        readings: Readings of what the paper leaves open.
        scale: Sizes of everything; by default the paper's, or small ones if `quick`.
        data: Folder with `cmc/cmc.data`; None is PARAFAIR_DATA, or a download.
        device: Where to fit, such as "cuda".
        n_jobs: Processes for fits and audits.
        formats: Of the pictures, among "png", "pdf" and "svg".
        page: The page to write; by default reproduction.md in the folder.
        on_progress: As in `make_tables`.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown_choice("formats", name, FORMATS)
    tables = make_tables(
        names, out=out, quick=quick, readings=readings, scale=scale, data=data, device=device,
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
            f"the pictures are left out ({error}); the same command draws them later",
            ParafairWarning,
            stacklevel=2,
        )
    target = tables.folder / PAGE if page is None else Path(page)
    claims = write_page(tables.folder, target)
    return Reproduction(tuple(claims), target, tuple(pictures), tables.left_out)
