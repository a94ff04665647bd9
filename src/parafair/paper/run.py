"""Running the experiments: rows missing in the tables are fitted in batches and audited."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from parafair.data.devices import check_device
from parafair.errors import ParafairWarning, unknown_choice
from parafair.guarantees.limits import parity_limit
from parafair.paper.config import FULL, NAMES, Figure, Item, Scale, Setup
from parafair.paper.readings import Readings
from parafair.paper.recipes import Data
from parafair.paper.table import (
    COLUMNS,
    LIMIT_COLUMNS,
    LIMITS_FILE,
    THEOREMS,
    Row,
    key,
    open_settings,
    read_rows,
    write_rows,
    write_settings,
)
from parafair.paper.theorems import THEOREM_COLUMNS, theorem_rows
from parafair.paper.work import OnProgress, Source, Work, load_sources, source_of


@dataclass(frozen=True)
class Tables:
    """The result of `make_tables`.

    Attributes:
        folder: The folder with the tables.
        figures: Names of the figures whose tables are complete.
        left_out: Figures that could not be made, with the reason.
    """

    folder: Path
    figures: tuple[str, ...]
    left_out: Mapping[str, str]


def make_tables(
    names: Sequence[str] = NAMES,
    *,
    out: str | Path,
    readings: Readings | None = None,
    scale: Scale = FULL,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
    n_jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> Tables:
    """Make the tables of some figures; existing rows are kept.

    Args:
        names: Figures, among `NAMES`.
        out: Folder for the tables.
        readings: Readings of the paper.
        scale: Sizes of data and grids: `FULL` are the paper's, `QUICK` checks that all works.
        data: Folder with `cmc/cmc.data`; None is PARAFAIR_DATA, or a download.
        device: Where to fit, such as "cuda".
        n_jobs: Processes for fits and audits.
        on_progress: Called with the current step, the rows done, all rows and the seconds left
            (None at first).

    Raises:
        ValueError: If `out` holds tables with other settings.
        OSError: If the data of all figures is missing. Single figures are left out.
    """
    for name in names:
        if name not in NAMES:
            raise unknown_choice("figure", name, NAMES)
    check_device(device)
    setup = Setup(readings or Readings(), scale)
    found, left_out = _load([setup.figures[name] for name in names], scale, data)
    folder = Path(out)
    record = open_settings(folder, asdict(setup))
    figures = [setup.figures[name] for name in names if name not in left_out]
    work = Work(scale, found, device, n_jobs, on_progress)
    try:
        _complete(work, figures, folder)
    finally:
        if work.done:
            record["runs"].append(work.record)
            write_settings(folder, record)
    work.report("parity limit")
    _add_limits(folder, found)
    write_rows(_table(folder, THEOREMS), theorem_rows(), THEOREM_COLUMNS)
    return Tables(folder, tuple(figure.name for figure in figures), left_out)


def _complete(work: Work, figures: Sequence[Figure], folder: Path) -> None:
    """Complete the tables of figures; they are written after each batch."""
    store = {key(row): row for name in NAMES for row in read_rows(_table(folder, name))}

    def write(some: Iterable[Figure]) -> None:
        for figure in some:
            rows = [store[item.key] for item in figure.items if item.key in store]
            write_rows(_table(folder, figure.name), rows, COLUMNS)

    def keep(items: Sequence[Item], rows: Sequence[Row]) -> None:
        for item, row in zip(items, rows, strict=True):
            store.setdefault(item.key, row)
        write(figure for figure in figures if set(items) & set(figure.items))

    wanted = [item for figure in figures for item in figure.items]
    work.complete(work.missing(wanted, lambda item: item.key in store), keep)
    write(figures)


def _table(folder: Path, name: str) -> Path:
    return folder / f"{name}.csv"


def _load(
    figures: Sequence[Figure], scale: Scale, folder: str | Path | None
) -> tuple[dict[Source, Data], dict[str, str]]:
    """Return the data of the figures, and the reasons for figures that are left out."""
    found: dict[Source, Data] = {}
    left_out: dict[str, str] = {}
    for figure in figures:
        new = [item for item in figure.items if source_of(item) not in found]
        try:
            found |= load_sources(new, scale, folder)
        except (OSError, ImportError) as error:
            if all(other.data == figure.data for other in figures):
                raise
            left_out[figure.name] = str(error)
    return found, left_out


def _add_limits(folder: Path, found: Mapping[Source, Data]) -> None:
    """Add the limits that the folder does not have yet."""
    rows = read_rows(folder / LIMITS_FILE)
    for name, data in {own.name: data for own, data in found.items() if not own.seed}.items():
        if any(row["data"] == name for row in rows):
            continue
        try:
            limit = parity_limit(data.tensor, sensitive_features=data.sensitive)
        except ImportError as error:
            warnings.warn(
                f"the limit is left out of the figures ({error}); run the command again to add it",
                ParafairWarning,
                stacklevel=3,
            )
            return
        pairs = zip(limit.leakages, limit.residuals, strict=True)
        rows += [{"data": name, "leakage": at, "residual": residual} for at, residual in pairs]
        write_rows(folder / LIMITS_FILE, rows, LIMIT_COLUMNS)
