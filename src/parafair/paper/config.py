"""The figures of the paper as settings: data, methods, grids and runs, from its appendix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.frontiers.run import AUDITS
from parafair.paper.readings import Readings

BCD, FATR, HSIC, KHSIC = "BCD", "FATR", "HSIC-BCD", "KHSIC-BCD"
REMOVAL, OURS = "correlation removal", "invariant"
PAPER_METHODS = (BCD, FATR, HSIC, KHSIC)
SYNTHETIC, CONTRACEPTIVE = "synthetic", "contraceptive"

RANKS = {SYNTHETIC: 8, CONTRACEPTIVE: 6}
TEST_SIZES = {SYNTHETIC: 0.25, CONTRACEPTIVE: 0.1}
# Step for the sensitive mode, and for the others.
STEP_SIZES = {
    SYNTHETIC: {BCD: (3.0, 1.0), FATR: (3.0, 1.0), HSIC: (0.5, 1.0), KHSIC: (0.5, 1.0)},
    CONTRACEPTIVE: dict.fromkeys((BCD, FATR, HSIC, KHSIC), (100.0, 10.0)),
}
RIDGE = 1.0  # the paper's a_l2

GRIDS = {
    "fig1a": {FATR: np.linspace(0, 0.1, 20)},
    "fig1b": {KHSIC: np.linspace(0, 0.04, 100)},
    "fig2a": {KHSIC: np.linspace(0, 0.4, 50), HSIC: np.linspace(0, 0.01, 50)},
    "fig3a": {
        # 0.66 ends the first half and begins the second; it is fitted once.
        method: np.concatenate([np.linspace(0, 0.66, 15), np.linspace(0.66, 4.8, 15)])
        for method in (KHSIC, HSIC)
    },
}
# Points of a grid that all runs have: both ends, or more if the whole curve is judged.
REPEATED = {"fig1a": 2, "fig1b": 2, "fig2a": 5, "fig3a": 2}
BARS: dict[str, dict[str, float | None]] = {
    "fig2b": {BCD: None, FATR: 0.1, HSIC: 0.01, KHSIC: 0.04},
    "fig3b": {BCD: None, FATR: 0.00002, HSIC: 4.8, KHSIC: 4.8},
}
LARGEST = 0.4  # of Figure 2a's range, which Figure 2b calls 0.04; so may Figure 1b


@dataclass(frozen=True)
class Scale:
    """Sizes of data, grids and fits: the paper's, or smaller ones.

    Attributes:
        name: Its name in the tables.
        shape: Shape of the synthetic data.
        women: People of the contraceptive data; None for all.
        points: Most points of a grid.
        runs: Runs of the bar charts.
        rounds: Most iterations of a fit.
        lengths: Numbers of iterations in the seventh figure.
        ours: Strengths of the invariant criterion on the curves.
        bars: Strengths of the invariant criterion in the bar charts.
        audits: Settings of the audit of every point.
        hidden: Width of the classifier.
    """

    name: str = "full"
    shape: tuple[int, int, int] = (200, 100, 100)
    women: int | None = None
    points: int = 100
    runs: int = 5
    rounds: int = 500
    lengths: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200)
    ours: tuple[float, ...] = (0.1, 1, 4, 8, 16, 32, 64, 128)
    bars: tuple[float, ...] = (8, 64)
    audits: Mapping[str, Any] = field(default_factory=lambda: dict(AUDITS))
    hidden: int = 1500


FULL = Scale()
QUICK = Scale(
    name="quick",
    shape=(60, 20, 20),
    women=150,
    points=4,
    runs=2,
    rounds=10,
    lengths=(1, 3, 10),
    ours=(1, 16),
    bars=(16,),
    audits={"attackers": ("linear", "neighbors"), "repeats": 1, "permutations": 10},
    hidden=200,
)


@dataclass(frozen=True)
class Item:
    """One fit: a point of a figure.

    Attributes:
        data: Name of the data.
        method: Name of the method.
        strength: As printed; None for a method without one.
        seed: The run: seed of the start and of the classifier's split.
        rounds: Outer iterations of Algorithm 1; None for methods that run until they converge.
        readings: The readings that the row of the fit depends on; the others have their defaults.
    """

    data: str
    method: str
    strength: float | None
    seed: int
    rounds: int | None
    readings: Readings = field(default_factory=Readings)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of its row in a table, as text."""
        strength = "" if self.strength is None else f"{self.strength:.10g}"
        rounds = "" if self.rounds is None else str(self.rounds)
        return (self.data, self.method, strength, str(self.seed), rounds)


@dataclass(frozen=True)
class Figure:
    """One figure: its fits, and how it is drawn.

    Attributes:
        name: As on the command line.
        title: What it shows.
        data: Name of the data.
        kind: "curve", "bars" or "rounds".
        axis: Column of the table along the x-axis of a curve.
        items: Its fits.
    """

    name: str
    title: str
    data: str
    kind: str
    axis: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Setup:
    """The settings that determine the tables.

    Attributes:
        readings: The readings of the paper.
        scale: The sizes.
    """

    readings: Readings = field(default_factory=Readings)
    scale: Scale = FULL

    @classmethod
    def from_record(cls, settings: Mapping[str, Mapping[str, Any]]) -> Setup:
        """Return the setup whose `asdict` was written."""
        return cls(Readings(**settings["readings"]), Scale(**settings["scale"]))

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """All figures by name, in the order of the paper."""
        listed = (
            self._curve("fig1a", "Unfairness against FATR's orthogonality", "orthogonality"),
            self._curve("fig1b", "Unfairness against normalized KHSIC", "normalized_khsic"),
            self._curve("fig2a", "Pareto frontier, synthetic data", "residual"),
            self._bars("fig2b", "Four methods on the synthetic data"),
            self._curve("fig3a", "Pareto frontier, contraceptive data", "residual"),
            self._bars("fig3b", "Four methods on the contraceptive data"),
            self._rounds("rounds", "The published criterion with more iterations"),
        )
        return {figure.name: figure for figure in listed}

    def rounds(self, data: str) -> int:
        """Return the number of iterations of Algorithm 1 on a data set."""
        wanted = self.readings
        read = wanted.rounds if data == SYNTHETIC else wanted.contraceptive_rounds
        return min(read, self.scale.rounds)

    def _curve(self, name: str, title: str, axis: str) -> Figure:
        """Return a figure with a grid: the whole grid in the first run, a part in the others."""
        data, scale = _data_of(name), self.scale
        first, *others = range(scale.runs)
        items = []
        for method, grid in self._grids(name).items():
            printed = _thin([float(strength) for strength in grid], scale.points)
            items += self._fits(data, method, printed, (first,))
            items += self._fits(data, method, _thin(printed, REPEATED[name]), others)
        items += self._fits(data, REMOVAL, (None,), (first,), converged=True)
        items += self._fits(data, OURS, scale.ours, (first,), converged=True)
        return Figure(name, title, data, "curve", axis, tuple(dict.fromkeys(items)))

    def _grids(self, name: str) -> dict[str, NDArray[np.float64]]:
        """Return the strengths of each method on a curve."""
        if name == "fig1b" and self.readings.largest == "range":
            return {KHSIC: np.linspace(0, LARGEST, 100)}
        return GRIDS[name]

    def _bars(self, name: str, title: str) -> Figure:
        """Return a figure with one strength per method in all runs."""
        data, runs = _data_of(name), range(self.scale.runs)
        items = []
        for method, strength in BARS[name].items():
            items += self._fits(data, method, (strength,), runs)
            if name == "fig2b" and method == KHSIC:
                items += self._fits(data, method, (LARGEST,), runs)
        items += self._fits(data, REMOVAL, (None,), runs, converged=True)
        items += self._fits(data, OURS, self.scale.bars, runs, converged=True)
        return Figure(name, title, data, "bars", "", tuple(items))

    def _rounds(self, name: str, title: str) -> Figure:
        items = [
            replace(item, rounds=rounds)
            for rounds in self.scale.lengths
            for item in self._fits(SYNTHETIC, KHSIC, (LARGEST,), range(self.scale.runs))
        ]
        return Figure(name, title, SYNTHETIC, "rounds", "rounds", tuple(items))

    def _fits(
        self,
        data: str,
        method: str,
        strengths: Sequence[float | None],
        seeds: Iterable[int],
        *,
        converged: bool = False,
    ) -> list[Item]:
        rounds = None if converged else self.rounds(data)
        return [
            Item(data, method, strength, seed, rounds, self._concerning(data, method, strength))
            for strength, seed in product(strengths, seeds)
        ]

    def _concerning(self, data: str, method: str, strength: float | None) -> Readings:
        """Return the readings that a fit depends on; the others by default.

        The number of iterations is that of an item, and 0 has no unit.
        """
        kept = readings_of(data, method) - {"rounds", "contraceptive_rounds"}
        kept -= set() if strength else {"units", "contraceptive_units"}
        return Readings(**{name: getattr(self.readings, name) for name in kept})


def readings_of(data: str, method: str) -> set[str]:
    """Return the names of the readings that the rows of a method depend on.

    Args:
        data: "synthetic" or "contraceptive".
        method: Name of the method.
    """
    found = {"batch_size", "runs" if data == SYNTHETIC else "scaling"}
    if method not in PAPER_METHODS:
        return found
    found |= {"init", "inner_steps", "loss", "steps"}
    found.add("rounds" if data == SYNTHETIC else "contraceptive_rounds")
    if method in (HSIC, KHSIC):
        found.add("units" if data == SYNTHETIC else "contraceptive_units")
    if method == FATR:  # the only penalty that is not centered
        found.add("ones")
    return found


def _data_of(figure: str) -> str:
    return CONTRACEPTIVE if figure.startswith("fig3") else SYNTHETIC


def _thin(grid: Sequence[float], points: int) -> list[float]:
    """Return at most `points` of the points of a grid, evenly spaced, with both ends."""
    kept = np.linspace(0, len(grid) - 1, min(points, len(grid))).round().astype(int)
    return [grid[place] for place in kept]


NAMES = tuple(Setup().figures)
