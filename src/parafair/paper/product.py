"""Products of readings: all combinations of some values, and the fits that judge a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from parafair.paper.config import FULL, NAMES, PAPER_METHODS, Item, Scale, Setup, readings_of
from parafair.paper.readings import EXPLAINED, Readings

Values = Mapping[str, tuple[Any, ...]]

# The figures of the paper; the last of ours is about one of the readings.
PAPER_FIGURES = NAMES[:-1]
# Readings that are no column of a table of fits: the number of iterations is that of an item, and
# the largest strength only selects fits.
NOT_OF_A_FIT = ("rounds", "contraceptive_rounds", "largest")

# Some hundred combinations, for a GPU.
EVERY: Values = {
    "init": ("uniform", "normal"),
    "inner_steps": (200, 1),
    "rounds": (100, 300, 1000),
    "contraceptive_rounds": (50, 20),
    "units": ("sum", "mean"),
    "contraceptive_units": ("mean", "sum"),
    "scaling": ("range", "standard", "raw"),
    "largest": ("printed", "range"),
    "ones": ("second", "first"),
    "batch_size": (32, 150),
}
# A few combinations for some minutes of a CPU, and the figures that need few fits.
SOME: Values = {
    "init": ("uniform", "normal"),
    "inner_steps": (200, 1),
    "rounds": (100, 300),
    "largest": ("printed", "range"),
    "ones": ("second", "first"),
    "batch_size": (32, 150),
}
SOME_FIGURES = ("fig1a", "fig1b", "fig2b")

# Three runs of every combination, and the attackers that find most for their time.
COMPARED = replace(
    FULL,
    name="comparison",
    runs=3,
    rounds=1000,
    audits={"attackers": ("linear", "svm", "forest"), "repeats": 1, "permutations": 1},
)


@dataclass(frozen=True, eq=False)
class Product:
    """All combinations of some values of readings; other readings have their defaults.

    Attributes:
        values: The values of each reading.
        scale: The sizes of data, grids and fits.
    """

    values: Values
    scale: Scale = COMPARED

    @classmethod
    def from_record(cls, settings: Mapping[str, Mapping[str, Any]]) -> Product:
        """Return the product whose `settings` were written."""
        values = {name: tuple(own) for name, own in settings["readings"].items()}
        return cls(values, Scale(**settings["scale"]))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the tables."""
        return {"readings": dict(self.values), "scale": vars(self.scale)}

    @property
    def columns(self) -> tuple[str, ...]:
        """Readings that are columns of the table of fits."""
        return tuple(n for n in EXPLAINED if n in self.values and n not in NOT_OF_A_FIT)

    def concerning(self, name: str) -> tuple[str, ...]:
        """Return the readings of the product that a figure depends on."""
        figure = Setup(scale=self.scale).figures[name]
        methods = {item.method for item in figure.items} & set(PAPER_METHODS)
        found = set().union(*(readings_of(figure.data, method) for method in methods))
        found |= {"largest"} if name in ("fig1b", "fig2b") else set()
        return tuple(n for n in EXPLAINED if n in self.values and n in found)

    def combinations(self, name: str) -> list[Readings]:
        """Return the combinations of the readings that a figure depends on."""
        names = self.concerning(name)
        values = product(*(self.values[each] for each in names))
        return [Readings(**dict(zip(names, own, strict=True))) for own in values]

    def items(self, name: str, readings: Readings) -> list[Item]:
        """Return the fits that a figure is judged by: at strengths that all runs have.

        Args:
            name: The figure.
            readings: One of its combinations.
        """
        figure = Setup(readings, self.scale).figures[name]
        own = [item for item in figure.items if item.method in PAPER_METHODS]
        runs = {(item.method, item.strength): 0 for item in own}
        for item in own:
            runs[item.method, item.strength] += 1
        return [i for i in own if runs[i.method, i.strength] == self.scale.runs]

    def key(self, item: Item) -> tuple[str, ...]:
        """Return the key of the row of an item, as text."""
        return (*(str(getattr(item.readings, name)) for name in self.columns), *item.key)
