"""The result of an audit: tidy rows, the verdict that follows from them, a printed table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import nan
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from parafair.data.frames import frame_of
from parafair.records import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Section: TypeAlias = Literal["leakage", "attackers", "dependence", "predictions", "paper"]

ACCURACY, AUC = "balanced accuracy", "AUC"
R_SQUARED, RANK_CORRELATION = "R squared", "rank correlation"
SCORES = (ACCURACY, R_SQUARED)


class Verdict(Enum):
    """What an audit says about an embedding."""

    PASSES = "passes"
    LEAKS = "leaks"
    BELOW_CHANCE = "below chance"


@dataclass(frozen=True)
class Measure:
    """One number of an audit, with its interval and its chance level.

    Attributes:
        feature: The sensitive feature, several joined by " x ", or the name of the target.
        section: "leakage", "attackers", "dependence", "predictions" or "paper".
        measure: The name of the measure, such as "balanced accuracy".
        value: The result; NaN if it is undefined.
        model: The name of the attacker or predictor, or "".
        input: The input of the model: "standardized" or "whitened" columns, or "".
        low: Lower end of the 95 % interval, or None.
        high: Upper end of the 95 % interval, or None.
        chance: The value for an embedding without information, or None if it is not known.
        about: How to read it.
    """

    feature: str
    section: Section
    measure: str
    value: float
    model: str = ""
    input: str = ""
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    about: str = ""

    @property
    def advantage(self) -> float:
        """How far the value is above chance."""
        return self.value - (self.chance or 0.0)

    @property
    def above_chance(self) -> bool:
        """Whether the whole interval is above chance."""
        return self.low is not None and self.chance is not None and self.low > self.chance

    @property
    def below_chance(self) -> bool:
        """Whether the whole interval is below chance."""
        return self.high is not None and self.chance is not None and self.high < self.chance


@dataclass(frozen=True)
class Audit:
    """How much an embedding reveals, as tidy rows; prints as a table.

    Attributes:
        rows: All measures of all features.
        people: Number of people in the audit.
        population: Number of people with an embedding and features; larger if they were sampled.
        remarks: What was left out or done differently, as sentences.
    """

    rows: tuple[Measure, ...]
    people: int
    population: int
    remarks: tuple[str, ...] = ()

    @property
    def attackers(self) -> tuple[Measure, ...]:
        """The rows that score an attacker: balanced accuracy, or R squared of a number."""
        return tuple(r for r in self.rows if r.section == "attackers" and r.measure in SCORES)

    @property
    def strongest(self) -> Measure:
        """The attacker furthest above chance, without correction for the selection."""
        return max(self.attackers, key=lambda row: row.advantage)

    @property
    def leakage(self) -> float:
        """The strongest attacker's advantage over chance, corrected for the selection.

        The largest over the features. Its unit is balanced accuracy above chance for a
        category (at most 0.5 for two groups) and R squared for a number.
        """
        return self._leakage.value

    @property
    def leakage_interval(self) -> tuple[float, float]:
        """The 95 % interval of `leakage`."""
        row = self._leakage
        return (row.value if row.low is None else row.low), (
            row.value if row.high is None else row.high
        )

    @property
    def _leakage(self) -> Measure:
        return max((r for r in self.rows if r.section == "leakage"), key=lambda row: row.value)

    @property
    def leaks(self) -> bool:
        """Whether any attacker is significantly above chance (95 %, simultaneous)."""
        return any(row.above_chance for row in self.attackers)

    @property
    def below_chance(self) -> bool:
        """Whether any classifier is significantly below chance (95 %, simultaneous).

        It has learned the opposite of the truth. This happens if people are matched in pairs
        across groups. Regressions do not count: without information, R squared is negative.
        """
        return bool(self._classifiers_below_chance)

    @property
    def _classifiers_below_chance(self) -> list[Measure]:
        return [row for row in self.attackers if row.below_chance and row.measure == ACCURACY]

    def verdict(self, max_leakage: float = 0.05) -> Verdict:
        """Decide whether the embedding passes: the one rule that everything else uses.

        It leaks if `leakage` is above `max_leakage` or any attacker is significantly above chance.
        Otherwise it is below chance if any classifier is significantly below chance. Otherwise it
        passes. Significance is that of the simultaneous 95 % intervals.

        Args:
            max_leakage: The largest leakage allowed, from 0 to 1.
        """
        check_max_leakage(max_leakage)
        if self.leakage > max_leakage or self.leaks:
            return Verdict.LEAKS
        return Verdict.BELOW_CHANCE if self.below_chance else Verdict.PASSES

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that summarize the rows and state their limitations."""
        low, high = self.leakage_interval
        best, feature = self.strongest, self._leakage.feature
        notes = [
            f"leakage {self.leakage:.3f} [{low:.3f}, {high:.3f}] ({feature}): the strongest "
            "attacker's advantage over chance, corrected for selecting the strongest"
        ]
        if self.leaks:
            notes.append(
                "an attacker is significantly above chance (95 %, simultaneous); the strongest is "
                f"{best.model} on {best.input} columns, {best.advantage:.3f} above chance for "
                f"{best.feature}"
            )
        if self.below_chance:
            worst = min(row.advantage for row in self._classifiers_below_chance)
            notes.append(
                "a classifier is significantly below chance (95 %, simultaneous), by "
                f"{-worst:.3f}: a warning, not a success. People may be matched in pairs across "
                "groups, so predictions are inverted"
            )
        if self.people < self.population:
            notes.append(
                f"a random sample of {self.people} of {self.population} people was audited, "
                "with some of every group"
            )
        return (*notes, *self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON; undefined numbers are None."""
        return {
            "leakage": self.leakage,
            "leakage_interval": list(self.leakage_interval),
            "leaks": self.leaks,
            "below_chance": self.below_chance,
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "people": self.people,
            "population": self.population,
            "rows": [plain(asdict(row)) for row in self.rows],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Audit:
        """Return the audit that `to_dict` was called on."""
        rows = (Measure(**{**row, "value": _number(row["value"])}) for row in record["rows"])
        remarks = tuple(record["remarks"])
        return cls(tuple(rows), record["people"], record["population"], remarks)

    def to_frame(self) -> DataFrame:
        """Return the rows as a pandas data frame."""
        return frame_of([asdict(row) for row in self.rows], for_what="Audit.to_frame")

    def draw(self, path: str | Path | None = None) -> Figure:
        """Draw every attacker's advantage over chance; see `parafair.audits.draw`."""
        from parafair.audits.pictures import draw

        return draw(self, path)

    def __str__(self) -> str:
        from parafair.audits.text import write

        return write(self)


def check_max_leakage(max_leakage: float) -> None:
    """Raise unless the allowed leakage can be an advantage over chance."""
    is_number = isinstance(max_leakage, Real) and not isinstance(max_leakage, bool)
    if not is_number or not 0 <= max_leakage <= 1:
        raise ValueError(
            f"max_leakage must be a number from 0 to 1, got {max_leakage!r}; it is an "
            "advantage over chance, so 0.05 allows 5 points of balanced accuracy"
        )


def ordered(values: Iterable[str]) -> list[str]:
    """Return distinct values in the order of their first appearance."""
    return list(dict.fromkeys(values))


def _number(value: float | None) -> float:
    return nan if value is None else value
