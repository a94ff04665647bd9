"""The result of an audit: tidy rows, the verdict that follows from them, a printed table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import inf, isfinite, isnan, nan
from numbers import Real
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from parafair.arguments import as_path, flag, instance_of, items, one_of, real_number, whole_number
from parafair.data.frames import frame_of
from parafair.display import view
from parafair.errors import shown
from parafair.records import plain
from parafair.storage import DAMAGE
from parafair.stored import read_record, reading, write_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

Section: TypeAlias = Literal["leakage", "attackers", "dependence", "predictions", "paper"]

ACCURACY, AUC = "balanced accuracy", "AUC"
R_SQUARED, RANK_CORRELATION = "R squared", "rank correlation"

# Scores with an interval, and the first score of each attacker.
SCORES = (ACCURACY, R_SQUARED, RANK_CORRELATION)
FIRST_SCORES = (ACCURACY, R_SQUARED)

# So many people always decide.
DECIDING = 100


class Verdict(Enum):
    """What an audit says about an embedding."""

    PASSES = "passes"
    LEAKS = "leaks"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Measure:
    """One number of an audit, with its interval and its chance level.

    Attributes:
        feature: The sensitive feature, several joined by " x ", or the name of the target.
        section: "leakage", "attackers", "dependence", "predictions" or "paper".
        measure: The name of the measure, such as "balanced accuracy".
        value: The result; NaN if it is undefined.
        model: The name of the attacker or predictor, or "".
        input: The input of the model: "standardized", "whitened" or "ranks", or "".
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

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Measure:
        """Return a measure from plain values; None is an undefined value."""
        try:
            value = record["value"]
            found = cls(**{**record, "value": nan if value is None else value})
        except Exception as error:  # a record may be anything
            raise ValueError(
                f"record must have the attributes of a Measure by name, got {shown(record)} "
                f"({type(error).__name__}: {error})"
            ) from error
        one_of("section", found.section, get_args(Section))
        for text in (found.feature, found.measure, found.model, found.input, found.about):
            _text(text)
        for name in ("value", "low", "high", "chance"):
            if record.get(name) is not None:
                real_number(name, record[name])
        return found

    @property
    def advantage(self) -> float:
        """How far the value is above chance; negative if it is below."""
        return self.value - (self.chance or 0.0)

    @property
    def gain(self) -> float:
        """What an attacker with this score learns if it may turn its answers around.

        In the unit of leakage: balanced accuracy above chance, or the share of the variance of a
        number, or of its ranks, that is explained.
        """
        if self.measure == RANK_CORRELATION:
            return self.value**2
        if self.measure == ACCURACY and self.chance is not None and self.value < self.chance:
            return -self.advantage * self.chance / (1 - self.chance)
        return self.advantage

    @property
    def above_chance(self) -> bool:
        """Whether the whole interval is above chance."""
        return self.low is not None and self.chance is not None and self.low > self.chance

    @property
    def below_chance(self) -> bool:
        """Whether the whole interval is below chance.

        R squared never is: without information, it is negative.
        """
        if self.high is None or self.chance is None or self.measure == R_SQUARED:
            return False
        return self.high < self.chance


@dataclass(frozen=True, repr=False)
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
        """The first score of every attacker: balanced accuracy, or R squared of a number."""
        return tuple(row for row in self.scores if row.measure in FIRST_SCORES)

    @property
    def scores(self) -> tuple[Measure, ...]:
        """The rows of attackers with intervals: `attackers`, and rank correlations of numbers."""
        return tuple(r for r in self.rows if r.section == "attackers" and r.measure in SCORES)

    @property
    def strongest(self) -> Measure:
        """The score with the largest gain, without correction for the selection."""
        return max(self.scores, key=lambda row: inf if isnan(row.gain) else row.gain)

    @property
    def leakage(self) -> float:
        """What an attacker gains who chooses model and sign, corrected for the choice.

        The largest over the features. Its unit is balanced accuracy above chance for a category
        (at most 0.5 for two groups), and the share of the variance explained for a number or its
        ranks. An attacker below chance is turned around, so it leaks as well.
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
        rows = [row for row in self.rows if row.section == "leakage"]
        return max(rows, key=lambda row: inf if isnan(row.value) else row.value)

    @property
    def above_chance(self) -> bool:
        """Whether any attacker is significantly above chance (95 %, simultaneous)."""
        return any(row.above_chance for row in self.scores)

    @property
    def below_chance(self) -> bool:
        """Whether any attacker is significantly below chance (95 %, simultaneous).

        It has learned the opposite of the truth. This happens if people are matched across groups.
        """
        return any(row.below_chance for row in self.scores)

    @property
    def undefined(self) -> bool:
        """Whether leakage or a score is not a number, so that nothing is known."""
        return isnan(self.leakage) or any(isnan(row.value) for row in self.scores)

    def verdict(self, max_leakage: float = 0.05) -> Verdict:
        """Decide whether the embedding passes: the one rule that everything else uses.

        It leaks if `leakage` is above `max_leakage`, if any attacker is significantly above or
        below chance, or if a score is undefined. Significance is that of the simultaneous 95 %
        intervals. Otherwise it passes, unless there are so few people that the audit is
        inconclusive: fewer than 100, who do not even exclude an attacker who is always right.

        Args:
            max_leakage: The largest leakage allowed, from 0 to 1.
        """
        check_max_leakage(max_leakage)
        significant = self.above_chance or self.below_chance
        if significant or self.undefined or self.leakage > max_leakage:
            return Verdict.LEAKS
        return Verdict.INCONCLUSIVE if self._is_open(max_leakage) else Verdict.PASSES

    def _is_open(self, max_leakage: float) -> bool:
        """Tell whether too few people were audited to exclude an attacker who is always right.

        One is not excluded if the interval of leakage, or that of every attacker, reaches so far.
        """
        if self.people >= DECIDING:
            return False
        for leakage in (row for row in self.rows if row.section == "leakage"):
            scores = [row for row in self.scores if row.feature == leakage.feature]
            largest = 1 - max((row.chance or 0.0 for row in scores), default=0.0)
            ends = [1.0 if row.high is None else row.high for row in scores]
            reached = leakage.high is not None and leakage.high >= largest
            if max_leakage < largest and (reached or min(ends, default=0.0) >= 1):
                return True
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that summarize the rows and state their limitations."""
        low, high = self.leakage_interval
        notes = [
            f"leakage {self.leakage:.3f} [{low:.3f}, {high:.3f}] ({self._leakage.feature}): what "
            "an attacker gains over chance who chooses model and sign, corrected for the choice"
        ]
        notes += [note for note in (self._significant(), self._resolution()) if note]
        if self._is_open(0.0):
            notes.append(
                f"{self.people} people are too few to exclude an attacker who is always right, so "
                "an audit that finds no leak is inconclusive"
            )
        if self.undefined:
            notes.append("a score is undefined (nan), so nothing is known: the audit failed")
        if self.people < self.population:
            notes.append(
                f"a random sample of {self.people} of {self.population} people was audited, "
                "with some of every group"
            )
        return (*notes, *self.remarks)

    def _significant(self) -> str:
        """Return a sentence about the attackers significantly off chance."""
        found = [row for row in self.scores if row.above_chance or row.below_chance]
        if not found:
            return ""
        best = max(found, key=lambda row: row.gain)
        side = "above" if best.above_chance else "below"
        text = (
            f"an attacker is significantly {side} chance (95 %, simultaneous): {best.model} "
            f"({best.input}), {best.measure} {best.value:.3f} for {best.feature}"
        )
        if best.above_chance:
            return text
        return (
            f"{text}. An attacker who turns the answer around is right: people may be matched "
            "across groups"
        )

    def _resolution(self) -> str:
        """Return a sentence about the smallest advantage that these people can show."""
        own = [r for r in self.attackers if r.feature == self._leakage.feature]
        widths = [r.high - r.low for r in own if r.low is not None and r.high is not None]
        widths = [width for width in widths if isfinite(width)]
        if not widths:
            return ""
        unit = "R squared below" if own[0].measure == R_SQUARED else "an advantage below"
        return (
            f"with {self.people} people, {unit} about {median(widths) / 2:.2f} is not significant"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON; undefined numbers are None."""
        return {
            "leakage": self.leakage,
            "leakage_interval": list(self.leakage_interval),
            "above_chance": self.above_chance,
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
        try:
            instance_of("record", record, Mapping, "use a dictionary")  # type: ignore[type-abstract]
            rows = tuple(map(Measure.from_dict, items("rows", record["rows"], "measures")))
            remarks = tuple(map(_text, items("remarks", record["remarks"], "sentences")))
            people = whole_number("people", record["people"])
            population = whole_number("population", record["population"])
            if not {"leakage", "attackers"} <= {row.section for row in rows}:
                raise ValueError("it has no rows of leakage and of attackers")
        except DAMAGE as error:
            reason = str(error) if isinstance(error, ValueError) else repr(error)
            raise ValueError(
                f"record must be what Audit.to_dict returned, got {shown(record)} ({reason}); use "
                "Audit.load for a file"
            ) from error
        return cls(rows, people, population, remarks)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the audit to a JSON file, with a checksum."""
        flag("overwrite", overwrite)
        write_record(as_path("path", path), self.to_dict(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Audit:
        """Return the audit that `save` or ``parafair audit --json`` wrote."""
        file = as_path("path", path)
        with reading(file):
            return cls.from_dict(read_record(file))

    def to_frame(self) -> DataFrame:
        """Return the rows as a pandas data frame."""
        return frame_of([asdict(row) for row in self.rows], for_what="Audit.to_frame")

    def draw(self, path: str | Path | None = None, *, overwrite: bool = False) -> Figure:
        """Draw every attacker's advantage over chance; see `parafair.audits.draw`."""
        from parafair.audits.pictures import draw

        return draw(self, path, overwrite=overwrite)

    def plot(self, *, feature: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw every attacker's advantage over chance for one feature.

        Args:
            feature: The feature; None for the one with the largest leakage.
            ax: Axes of matplotlib to draw on; None for those of a new figure.
        """
        from parafair.audits.pictures import plot

        return plot(self, feature=feature, ax=ax)

    def __repr__(self) -> str:
        low, high = self.leakage_interval
        return (
            f"Audit({self.verdict().value}: leakage {self.leakage:.3f} [{low:.3f}, {high:.3f}], "
            f"{self.people} people)"
        )

    def _repr_html_(self) -> str:
        from parafair.audits.view import audit_parts

        return view(f"Audit: {self.verdict().value} (max_leakage=0.05)", *audit_parts(self))

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


def _text(value: object) -> str:
    return instance_of("every name and remark", value, str, "write names as text")
