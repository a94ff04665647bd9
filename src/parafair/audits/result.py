"""What an audit found: tidy rows, the verdict that follows from them, and a printed table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import isfinite, nan
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from parafair.data.frames import frame_of

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
    """One number of an audit, and what is needed to read it.

    Attributes:
        feature: The sensitive feature, several joined by " x ", or what was predicted.
        section: "leakage", "attackers", "dependence", "predictions" or "paper".
        measure: What was measured.
        value: The result; NaN if it is undefined.
        model: The attacker or predictor it belongs to, or "".
        input: What the model saw: "standardized" or "whitened" columns, or "".
        low: Lower end of the 95 % interval, where there is one.
        high: Upper end of the 95 % interval, where there is one.
        chance: What it would be if the embedding said nothing, where that is known.
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
    """What an embedding reveals, as tidy rows; prints as a table.

    Attributes:
        rows: All measures of all features.
        people: How many people were looked at.
        of: How many there are.
        remarks: What was left out or done differently, as sentences.
    """

    rows: tuple[Measure, ...]
    people: int
    of: int
    remarks: tuple[str, ...] = ()

    @property
    def attackers(self) -> tuple[Measure, ...]:
        """The rows that score an attacker: balanced accuracy, or R squared of a number."""
        return tuple(r for r in self.rows if r.section == "attackers" and r.measure in SCORES)

    @property
    def advantages(self) -> tuple[float, ...]:
        """How far each attacker is above chance."""
        return tuple(row.advantage for row in self.attackers)

    @property
    def strongest(self) -> Measure:
        """The attacker furthest above chance, without correction for having picked it."""
        return max(self.attackers, key=lambda row: row.advantage)

    @property
    def leakage(self) -> float:
        """The strongest attacker's advantage over chance, corrected for picking the strongest.

        The largest over the features. Its unit is balanced accuracy above chance for a
        category (0.5 is everything for two groups) and R squared for a number.
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
        return any(row.below_chance and row.measure == ACCURACY for row in self.attackers)

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
        """What a reader must know besides the rows, as sentences."""
        low, high = self.leakage_interval
        best, feature = self.strongest, self._leakage.feature
        notes = [
            f"leakage {self.leakage:.3f} [{low:.3f}, {high:.3f}] ({feature}): the strongest "
            "attacker's advantage over chance, corrected for picking the strongest"
        ]
        if self.leaks:
            notes.append(
                f"an attacker is above chance beyond doubt; the strongest is {best.model} on "
                f"{best.input} columns, {best.advantage:.3f} above chance on {best.feature}"
            )
        if self.below_chance:
            worst = min(self.attackers, key=lambda row: row.advantage)
            notes.append(
                f"an attacker is {-worst.advantage:.3f} below chance: a warning, not a success. "
                "People may be matched in pairs across groups, which predictions invert"
            )
        if self.people < self.of:
            notes.append(
                f"on a random sample of {self.people} of {self.of} people, with some of every group"
            )
        return (*notes, *self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON; what is undefined is None."""
        return {
            "leakage": self.leakage,
            "leakage_interval": list(self.leakage_interval),
            "leaks": self.leaks,
            "below_chance": self.below_chance,
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "people": self.people,
            "of": self.of,
            "rows": [{k: _plain(v) for k, v in asdict(row).items()} for row in self.rows],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Audit:
        """Return the audit that `to_dict` was called on."""
        rows = (Measure(**{**row, "value": _number(row["value"])}) for row in record["rows"])
        return cls(tuple(rows), record["people"], record["of"], tuple(record["remarks"]))

    def to_json(self) -> str:
        """Return the audit as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_frame(self) -> DataFrame:
        """Return the rows as a table of pandas."""
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


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value
