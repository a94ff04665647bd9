"""The fits that tables lack: made in batches, measured and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import joblib
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.frontiers.plan import Plan, in_batches, make_plan
from parafair.frontiers.point import Member
from parafair.paper.config import KHSIC, SYNTHETIC, TEST_SIZES, Item, Scale, Setup
from parafair.paper.measuring import Measuring
from parafair.paper.readings import Readings
from parafair.paper.recipes import Data, load_data, recipe
from parafair.paper.table import Row, rounded
from parafair.solvers.result import Fit

OnProgress = Callable[[str, int, int, float | None], None]

# Fits per batch on a CPU. Larger batches are no faster there, and an interruption loses more.
AT_ONCE = 16
# Readings that do not change the model: members of a batch may differ in them.
NOT_OF_THE_MODEL = ("batch_size", "units", "contraceptive_units")


class Source(NamedTuple):
    """The data of a fit: its name, the seed of generated data, and the readings it depends on."""

    name: str
    seed: int
    scaling: str
    ones: str


def source_of(item: Item) -> Source:
    """Return the data that an item is fitted to."""
    own = item.readings.runs == "data" and item.data == SYNTHETIC
    return Source(item.data, item.seed if own else 0, item.readings.scaling, item.readings.ones)


def load_sources(
    items: Iterable[Item], scale: Scale, folder: str | Path | None
) -> dict[Source, Data]:
    """Return the data of all items."""
    found: dict[Source, Data] = {}
    for item in items:
        source = source_of(item)
        if source not in found:
            setup = Setup(item.readings, scale)
            found[source] = load_data(source.name, source.seed, setup, folder)
    return found


@dataclass(eq=False)
class Work:
    """Fits and measures items in batches.

    Attributes:
        scale: Sizes, audits and the width of the classifier.
        data: The data of all items.
        device: Where to fit.
        n_jobs: Processes for fits and audits.
        on_progress: Called with the current step, the rows done, all rows and the seconds left.
        done: Rows made.
        total: Rows to make.
    """

    scale: Scale
    data: Mapping[Source, Data]
    device: str | torch.device | None = None
    n_jobs: int | None = None
    on_progress: OnProgress | None = None
    done: int = 0
    total: int = 0
    spent: float = 0.0
    left: float = 0.0
    begin: float = field(default_factory=perf_counter)

    def missing(self, items: Iterable[Item], known: Callable[[Item], bool]) -> list[Batch]:
        """Return the batches with unknown rows.

        Batches are never split, so that a continued run gives the same rows as one run.
        """
        batches = self._batches(dict.fromkeys(items))
        return [b for b in batches if not all(known(item) for item in b.items)]

    def seconds(self, batches: Iterable[Batch]) -> float:
        """Return the estimated time for some batches."""
        jobs = int(joblib.effective_n_jobs(self.n_jobs))
        workers, attackers = 1 if self.on_gpu else jobs, len(self.scale.audits["attackers"])
        return sum(
            b.fitting(on_gpu=self.on_gpu) / workers + b.measuring(attackers) / jobs for b in batches
        )

    def complete(
        self, batches: Sequence[Batch], keep: Callable[[Sequence[Item], Sequence[Row]], None]
    ) -> None:
        """Make the rows of all batches; call `keep` with the items and rows of each."""
        self.total, self.left = sum(len(b.items) for b in batches), self.seconds(batches)
        for batch in batches:
            rows = self._rows(batch)
            self.done += len(rows)
            cost = self.seconds([batch])
            self.spent, self.left = self.spent + cost, self.left - cost
            keep(batch.items, rows)

    def report(self, what: str) -> None:
        """Report the current step and the estimated time left."""
        if self.on_progress is not None:
            elapsed = perf_counter() - self.begin
            ahead = elapsed / self.spent * self.left if self.spent else None
            self.on_progress(what, self.done, self.total, ahead)

    @property
    def on_gpu(self) -> bool:
        """Whether fits are made on a GPU."""
        return self.device is not None and torch.device(self.device).type == "cuda"

    @property
    def record(self) -> dict[str, Any]:
        """The machine and the versions with which the rows were made."""
        return {
            "rows": self.done,
            "seconds": round(perf_counter() - self.begin, 1),
            "device": torch.cuda.get_device_name(self.device) if self.on_gpu else "cpu",
            "jobs": joblib.effective_n_jobs(self.n_jobs),
            "parafair": version("parafair"),
            "torch": torch.__version__,
            "scikit-learn": version("scikit-learn"),
        }

    def _batches(self, items: Iterable[Item]) -> Iterator[Batch]:
        """Yield fits that differ only in strength, seed and units; on a GPU, all at once."""
        groups: dict[tuple[Any, ...], dict[Item, list[Item]]] = {}
        for item in items:
            model = _as_usual(item, NOT_OF_THE_MODEL).readings
            group = groups.setdefault((source_of(item), item.method, item.rounds, model), {})
            group.setdefault(_as_usual(item, ("batch_size",)), []).append(item)
        for (source, *_), group in groups.items():
            for batch in in_batches(list(group.values()), len(group) if self.on_gpu else AT_ONCE):
                yield Batch(self.data[source], tuple(map(tuple, batch)))

    def _rows(self, batch: Batch) -> list[Row]:
        """Fit, audit and measure one batch; the rows are in the order of its items."""
        data, scale = batch.data, self.scale
        recipes = [recipe(data, i.method, i.rounds, i.readings) for i, *_ in batch.fits]
        plan = make_plan(
            recipes[0].model.set_params(device=self.device),
            data.tensor,
            sensitive_features=data.sensitive,
            name=batch.items[0].method,
            audits=scale.audits,
        )
        members = [
            plan.member(made.strength(item.strength), item.seed)
            for made, (item, *_) in zip(recipes, batch.fits, strict=True)
        ]
        self.report(f"{plan.name}: {len(members)} fits")
        fits = self._fit(plan, members)
        measuring = Measuring(
            data.sensitive,
            audits=scale.audits,
            network={"test_size": TEST_SIZES[data.name], "hidden": scale.hidden},
        )
        jobs = (
            joblib.delayed(measuring.rows)(items, fit)
            for items, fit in zip(batch.fits, fits, strict=True)
        )
        rows: list[Row] = []
        parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator")
        for number, found in enumerate(parallel(jobs), 1):
            rows += map(rounded, found)
            self.report(f"{plan.name}: audits {number}/{len(fits)}")
        return rows

    def _fit(self, plan: Plan, members: Sequence[Member]) -> list[Fit]:
        """Return the fits, in one batch on a GPU and otherwise one batch per process."""
        workers = 1 if self.on_gpu else max(1, int(joblib.effective_n_jobs(self.n_jobs)))
        found = joblib.Parallel(n_jobs=workers)(
            joblib.delayed(_fit_batch)(plan, batch)
            for batch in plan.batches(members, workers=workers)
        )
        return [fit for batch in found for fit in batch]


@dataclass(frozen=True)
class Batch:
    """Fits of one method to one data set.

    Attributes:
        data: The data.
        fits: For each fit, the items that share it; they differ in how it is measured.
    """

    data: Data
    fits: tuple[tuple[Item, ...], ...]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """All items, fit by fit."""
        return tuple(chain.from_iterable(self.fits))

    def fitting(self, *, on_gpu: bool) -> float:
        """Estimated seconds of the fits: on one core, or on a GPU."""
        first, count = self.items[0], len(self.fits)
        if first.rounds is None:
            return float(count)
        pairs = count * self.data.people**2
        steps = first.readings.inner_steps if first.method == KHSIC else 0
        if on_gpu:
            return first.rounds * (0.004 + steps * (3.5e-4 + 1e-11 * pairs))
        return first.rounds * (2e-9 * count * prod(self.data.tensor.shape) + 5e-9 * steps * pairs)

    def measuring(self, attackers: int) -> float:
        """Estimated seconds of the audits and of the classifiers, on one core."""
        return self.data.people * (2e-3 * attackers * len(self.fits) + 5e-4 * len(self.items))


def _as_usual(item: Item, names: Iterable[str]) -> Item:
    """Return an item with the default values of some readings."""
    usual = {name: getattr(Readings(), name) for name in names}
    return replace(item, readings=replace(item.readings, **usual))


def _fit_batch(plan: Plan, members: Sequence[Member]) -> list[Fit]:
    """Fit a batch and return the fits on the CPU."""
    fits = plan.fit(members, lambda position, fit: None)
    return [replace(f, cp=CPTensor.from_factors([a.cpu() for a in f.cp.factors])) for f in fits]
