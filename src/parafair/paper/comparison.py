"""The claims under many readings: fits in batches, and a verdict for each combination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from parafair.data.devices import check_device
from parafair.errors import unknown_choice
from parafair.paper.claims import judge
from parafair.paper.config import Item, Scale
from parafair.paper.product import (
    COMPARED,
    EVERY,
    PAPER_FIGURES,
    SOME,
    SOME_FIGURES,
    Product,
    Values,
)
from parafair.paper.readings import Readings
from parafair.paper.table import (
    COLUMNS,
    SETTINGS_FILE,
    Row,
    key,
    open_settings,
    read_rows,
    write_rows,
    write_settings,
)
from parafair.paper.verdict import MEASURES, Claim
from parafair.paper.work import OnProgress, Work, load_sources
from parafair.storage import read_json

FITS_FILE, VERDICTS_FILE = "fits.csv", "verdicts.csv"


@dataclass(frozen=True)
class Amount:
    """The work of a comparison, known before it begins.

    Attributes:
        combinations: Combinations of readings, of all figures together.
        rows: Rows of the table of fits that are missing.
        seconds: Estimated time for them.
    """

    combinations: int
    rows: int
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """A claim under one combination of readings.

    Attributes:
        readings: The readings; those that the claim does not depend on have their defaults.
        claim: The claim with its checks.
    """

    readings: Readings
    claim: Claim


def compare_readings(
    names: Sequence[str] | None = None,
    *,
    out: str | Path,
    readings: Values | None = None,
    scale: Scale = COMPARED,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
    n_jobs: int | None = None,
    on_start: Callable[[Amount], None] | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, list[Verdict]]:
    """Judge claims of the paper under all combinations of readings.

    A combination has only the readings that a figure depends on, and combinations share fits. Rows
    that the folder already has are not made again, so the same call continues an interrupted one.

    Args:
        names: Figures of the paper. By default all on a GPU, and three on a CPU.
        out: Folder for the tables `fits.csv` and `verdicts.csv`.
        readings: Values of readings that replace those of the default product: `EVERY` on a GPU,
            `SOME` on a CPU.
        scale: Sizes of data, grids and fits.
        data: Folder with `cmc/cmc.data`; None is PARAFAIR_DATA, or a download.
        device: Where to fit, such as "cuda".
        n_jobs: Processes for fits and audits.
        on_start: Called with the amount of work before it begins.
        on_progress: As in `make_tables`.

    Returns:
        The verdicts by figure.

    Raises:
        ValueError: If `out` holds tables with other settings.
        OSError: If the data of a figure is missing.
    """
    check_device(device)
    on_gpu = device is not None and torch.device(device).type == "cuda"
    figures = tuple(names or (PAPER_FIGURES if on_gpu else SOME_FIGURES))
    for name in figures:
        if name not in PAPER_FIGURES:
            raise unknown_choice("figure", name, PAPER_FIGURES)
    product = Product({**(EVERY if on_gpu else SOME), **(readings or {})}, scale)
    judged = [(name, own) for name in figures for own in product.combinations(name)]
    wanted = dict.fromkeys(item for name, own in judged for item in product.items(name, own))
    found = load_sources(wanted, scale, data)
    folder = Path(out)
    record = open_settings(folder, product.settings)
    work = Work(scale, found, device, n_jobs, on_progress)
    store = read_fits(folder, product)
    missing = work.missing(wanted, lambda item: product.key(item) in store)
    if on_start is not None:
        rows = sum(len(batch.items) for batch in missing)
        on_start(Amount(len(judged), rows, work.seconds(missing)))

    def keep(items: Sequence[Item], rows: Sequence[Row]) -> None:
        for item, row in zip(items, rows, strict=True):
            own = {name: getattr(item.readings, name) for name in product.columns}
            store.setdefault(product.key(item), own | row)
        write_rows(folder / FITS_FILE, store.values(), (*product.columns, *COLUMNS))

    try:
        work.complete(missing, keep)
    finally:
        if work.done:
            record["runs"].append(work.record)
            write_settings(folder, record)
    verdicts = read_verdicts(folder)
    _write_verdicts(folder, product, verdicts)
    return {name: verdicts[name] for name in figures}


def read_fits(folder: Path, product: Product) -> dict[tuple[str, ...], Row]:
    """Return the rows of the table of fits by their keys, as `Product.key`."""
    rows = read_rows(folder / FITS_FILE)
    return {(*(str(row[name]) for name in product.columns), *key(row)): row for row in rows}


def read_verdicts(folder: Path) -> dict[str, list[Verdict]]:
    """Return the verdicts by figure; combinations without all their fits are left out."""
    product = Product.from_record(read_json(folder / SETTINGS_FILE)["settings"])
    store = read_fits(folder, product)
    found: dict[str, list[Verdict]] = {}
    for name in PAPER_FIGURES:
        for readings in product.combinations(name):
            keys = [product.key(item) for item in product.items(name, readings)]
            if all(each in store for each in keys):
                (claim,) = judge({name: [store[each] for each in keys]}, readings)
                found.setdefault(name, []).append(Verdict(readings, claim))
    return found


def _write_verdicts(
    folder: Path, product: Product, verdicts: Mapping[str, Iterable[Verdict]]
) -> None:
    """Write a row for each figure and combination: its readings, verdicts and numbers."""
    rows: list[dict[str, Any]] = []
    for name, own in verdicts.items():
        apart = dict.fromkeys(set(product.values) - set(product.concerning(name)), "")
        for verdict in own:
            read = {n: str(value) for n, value in vars(verdict.readings).items()} | apart
            claim = verdict.claim
            rows.append(
                {
                    "figure": name,
                    **{reading: read[reading] for reading in product.values},
                    **{f"verdict by {m}": claim.by(m).verdict for m in MEASURES},
                    "verdict": claim.verdict,
                    "measured": claim.measured,
                    **{m: getattr(claim, m) for m in MEASURES},
                }
            )
    if rows:
        write_rows(folder / VERDICTS_FILE, rows, tuple(rows[0]))
