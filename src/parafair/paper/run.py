"""Running the experiments: rows missing in the tables are fitted in batches and audited."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.data.devices import check_device
from parafair.errors import ParafairWarning, unknown_choice
from parafair.frontiers.plan import Plan, in_batches, make_plan
from parafair.frontiers.result import Member
from parafair.guarantees.limits import parity_limit
from parafair.paper.config import (
    FULL,
    KHSIC,
    NAMES,
    SYNTHETIC,
    TEST_SIZES,
    Figure,
    Item,
    Scale,
    Setup,
)
from parafair.paper.measuring import Measuring
from parafair.paper.readings import Readings
from parafair.paper.recipes import Data, load_data, recipe
from parafair.paper.table import (
    COLUMNS,
    LIMIT_COLUMNS,
    LIMITS_FILE,
    THEOREMS,
    Row,
    key,
    open_settings,
    read_rows,
    rounded,
    write_rows,
    write_settings,
)
from parafair.paper.theorems import THEOREM_COLUMNS, theorem_rows
from parafair.solvers.result import Fit

OnProgress = Callable[[str, int, int, float | None], None]

# Fits per batch on a CPU. Larger batches are no faster there, and an interruption loses more.
AT_ONCE = 16


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
    found, left_out = _load(names, setup, data)
    folder = Path(out)
    record = open_settings(folder, asdict(setup))
    figures = [setup.figures[name] for name in names if name not in left_out]
    work = _Work(setup, folder, found, device, n_jobs, on_progress)
    try:
        work.complete(figures)
    finally:
        if work.done:
            record["runs"].append(_about(work))
            write_settings(folder, record)
    work.report("parity limit")
    _add_limits(folder, found)
    write_rows(_table(folder, THEOREMS), theorem_rows(), THEOREM_COLUMNS)
    return Tables(folder, tuple(figure.name for figure in figures), left_out)


@dataclass(eq=False)
class _Work:
    """Fits and measures the rows that are missing in the tables of a folder."""

    setup: Setup
    folder: Path
    data: Mapping[tuple[str, int], Data]
    device: str | torch.device | None
    n_jobs: int | None
    on_progress: OnProgress | None
    done: int = 0
    total: int = 0
    spent: float = 0.0
    left: float = 0.0
    begin: float = field(default_factory=perf_counter)

    def complete(self, figures: Sequence[Figure]) -> None:
        """Complete the tables of figures; they are written after each batch."""
        store = {key(row): row for name in NAMES for row in read_rows(_table(self.folder, name))}
        wanted = dict.fromkeys(item for figure in figures for item in figure.items)
        batches = list(self._batches(list(wanted)))
        # Batches are never split, so that a continued run gives the same rows as one run.
        missing = [b for b in batches if any(item.key not in store for item in b.items)]
        self.total = sum(len(batch.items) for batch in missing)
        self.left = sum(batch.cost for batch in missing)
        for batch in missing:
            for item, row in zip(batch.items, self._rows(batch), strict=True):
                store.setdefault(item.key, row)
            self.done += len(batch.items)
            self.spent, self.left = self.spent + batch.cost, self.left - batch.cost
            self._write([f for f in figures if set(batch.items) & set(f.items)], store)
        self._write(figures, store)

    @property
    def on_gpu(self) -> bool:
        """Whether fits are made on a GPU."""
        return self.device is not None and torch.device(self.device).type == "cuda"

    def _write(self, figures: Iterable[Figure], store: Mapping[tuple[str, ...], Row]) -> None:
        for figure in figures:
            rows = [store[item.key] for item in figure.items if item.key in store]
            write_rows(_table(self.folder, figure.name), rows, COLUMNS)

    def _batches(self, items: Sequence[Item]) -> Iterator[_Batch]:
        """Yield batches of fits that differ only in strength and seed; on a GPU, one per group."""
        apart = self.setup.readings.runs == "data"
        groups: dict[tuple[Any, ...], list[Item]] = {}
        for item in items:
            seed = item.seed if apart and item.data == SYNTHETIC else 0
            groups.setdefault((item.data, seed, item.method, item.rounds), []).append(item)
        for (name, seed, _, _), group in groups.items():
            size = len(group) if self.on_gpu else AT_ONCE
            for batch in in_batches(group, size):
                yield _Batch(self.data[name, seed], tuple(batch), on_gpu=self.on_gpu)

    def _rows(self, batch: _Batch) -> list[Row]:
        """Fit, audit and measure one batch; the rows are in the order of its items."""
        data, readings, scale = batch.data, self.setup.readings, self.setup.scale
        made = recipe(data, batch.items[0].method, batch.items[0].rounds, readings)
        plan = make_plan(
            made.model.set_params(device=self.device),
            data.tensor,
            sensitive_features=data.sensitive,
            name=batch.items[0].method,
            audits=scale.audits,
        )
        members = [plan.member(made.strength(i.strength), i.seed) for i in batch.items]
        self.report(f"{plan.name}: {len(members)} fits")
        fits = self._fit(plan, members)
        measuring = Measuring(
            data.sensitive,
            audits=scale.audits,
            network={
                "test_size": TEST_SIZES[data.name],
                "hidden": scale.hidden,
                "batch_size": readings.batch_size,
            },
        )
        jobs = (
            joblib.delayed(measuring.row)(item, fit)
            for item, fit in zip(batch.items, fits, strict=True)
        )
        rows: list[Row] = []
        for row in joblib.Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
            rows.append(rounded(row))
            self.report(f"{plan.name}: audits {len(rows)}/{len(fits)}")
        return rows

    def _fit(self, plan: Plan, members: Sequence[Member]) -> list[Fit]:
        """Return the fits, in one batch on a GPU and otherwise one batch per process."""
        workers = 1 if self.on_gpu else max(1, int(joblib.effective_n_jobs(self.n_jobs)))
        found = joblib.Parallel(n_jobs=workers)(
            joblib.delayed(_fit_batch)(plan, batch)
            for batch in plan.batches(members, workers=workers)
        )
        return [fit for batch in found for fit in batch]

    def report(self, what: str) -> None:
        """Report the current step and the estimated time left."""
        if self.on_progress is not None:
            elapsed = perf_counter() - self.begin
            ahead = elapsed / self.spent * self.left if self.spent else None
            self.on_progress(what, self.done, self.total, ahead)


@dataclass(frozen=True)
class _Batch:
    """Fits of one method to one data set."""

    data: Data
    items: tuple[Item, ...]
    on_gpu: bool

    @property
    def cost(self) -> float:
        """Estimated seconds on one core."""
        first, people = self.items[0], self.data.people
        fit = 1.0
        if first.method == KHSIC and first.rounds is not None and not self.on_gpu:
            fit = 8e-7 * people**2 * first.rounds
        return len(self.items) * (fit + 0.01 * people)


def _fit_batch(plan: Plan, members: Sequence[Member]) -> list[Fit]:
    """Fit a batch and return the fits on the CPU."""
    fits = plan.fit(members, lambda position, fit: None)
    return [replace(f, cp=CPTensor.from_factors([a.cpu() for a in f.cp.factors])) for f in fits]


def _table(folder: Path, name: str) -> Path:
    return folder / f"{name}.csv"


def _load(
    names: Sequence[str], setup: Setup, folder: str | Path | None
) -> tuple[dict[tuple[str, int], Data], dict[str, str]]:
    """Return the data by name and seed, and the reasons for figures that are left out."""
    found: dict[tuple[str, int], Data] = {}
    left_out: dict[str, str] = {}
    for name in names:
        data = setup.figures[name].data
        seeds = range(setup.scale.runs) if setup.readings.runs == "data" else range(1)
        try:
            for seed in seeds if data == SYNTHETIC else (0,):
                if (data, seed) not in found:
                    found[data, seed] = load_data(data, seed, setup, folder)
        except (OSError, ImportError) as error:
            if all(setup.figures[other].data == data for other in names):
                raise
            left_out[name] = str(error)
    return found, left_out


def _add_limits(folder: Path, found: Mapping[tuple[str, int], Data]) -> None:
    """Add the limits that the folder does not have yet."""
    rows = read_rows(folder / LIMITS_FILE)
    for name, data in {name: data for (name, seed), data in found.items() if seed == 0}.items():
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


def _about(work: _Work) -> dict[str, Any]:
    """Return the machine and the versions with which the rows were made."""
    return {
        "rows": work.done,
        "seconds": round(perf_counter() - work.begin, 1),
        "device": torch.cuda.get_device_name(work.device) if work.on_gpu else "cpu",
        "jobs": joblib.effective_n_jobs(work.n_jobs),
        "parafair": version("parafair"),
        "torch": torch.__version__,
        "scikit-learn": version("scikit-learn"),
    }
