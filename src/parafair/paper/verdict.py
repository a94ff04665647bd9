"""Verdicts: a claim is a list of checks, and each check compares a number with a threshold.

Checks of fairness are made twice: with the unfairness that the paper's classifier measures and
with the leakage that the audit measures. A claim is reproduced if all checks hold, not reproduced
if no conclusion holds, and partly reproduced otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parafair.frontiers.hypervolume import hypervolume
from parafair.paper.table import Row

# The smallest difference in unfairness or leakage that counts: five points of accuracy.
MARGIN = 0.05
# The largest increase of the residual that is a small cost.
SMALL_COST = 0.05
# A measure goes to zero if it falls below this share of its first value.
VANISHED = 0.1

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
# The paper's measure of fairness, and ours.
MEASURES = ("unfairness", "leakage")


@dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        text: What should hold.
        holds: Whether it does.
        premise: Whether it is a premise of the claim, not a conclusion.
        measure: The measure of fairness that it is made with; empty for none.
    """

    text: str
    holds: bool
    premise: bool = False
    measure: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Attributes:
        where: The figure or theorem.
        paper: What the paper says.
        measured: The numbers other than unfairness and leakage.
        unfairness: What the paper's classifier found.
        leakage: What the strongest attacker found.
        checks: The verdict follows from these.
        remarks: Explanations that the numbers support.
    """

    where: str
    paper: str
    measured: str
    unfairness: str
    leakage: str
    checks: tuple[Check, ...]
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Reproduced, partly or not reproduced; decided by the checks."""
        conclusions = [check.holds for check in self.checks if not check.premise]
        if all(check.holds for check in self.checks):
            return REPRODUCED
        return PARTLY if any(conclusions) else NOT

    def by(self, measure: str) -> Claim:
        """Return the claim without the checks that are made with the other measure of fairness."""
        kept = tuple(check for check in self.checks if check.measure in ("", measure))
        return replace(self, checks=kept)

    @property
    def reason(self) -> str:
        """The checks that do not hold, and the remarks."""
        failed = [check.text for check in self.checks if not check.holds]
        text = "does not hold: " + "; ".join(failed) if failed else "all checks hold"
        return ". ".join([text[0].upper() + text[1:], *self.remarks])


@dataclass(frozen=True, eq=False)
class Runs:
    """One method at one strength, run by run; undefined values are NaN."""

    rows: list[Row]

    def __getitem__(self, measure: str) -> NDArray[np.float64]:
        values = [row[measure] for row in sorted(self.rows, key=lambda row: row["seed"])]
        return np.array(values, dtype=float)

    def mean(self, measure: str) -> float:
        """Return the mean over the runs."""
        return mean(self[measure])

    def text(self, measure: str) -> str:
        """Return mean and deviation over the runs, as text."""
        return spread(self[measure])


def runs_of(rows: Sequence[Row], method: str, strength: float | None) -> Runs:
    """Return the runs of a method at one strength."""
    return Runs([r for r in rows if (r["method"], r["strength"]) == (method, strength)])


def ends(rows: Sequence[Row], method: str) -> tuple[Runs, Runs]:
    """Return the runs of a method at the smallest and at the largest strength."""
    strengths = [row["strength"] for row in rows if row["method"] == method]
    return runs_of(rows, method, min(strengths)), runs_of(rows, method, max(strengths))


def uncovered(rows: Sequence[Row], method: str, measure: str) -> NDArray[np.float64]:
    """Return, for each run, the share of the plane that no fit of a method dominates.

    Only strengths that all runs have are used, so that the runs are comparable.
    """
    own = [row for row in rows if row["method"] == method]
    seeds = sorted({row["seed"] for row in own})
    common = set.intersection(*({r["strength"] for r in own if r["seed"] == s} for s in seeds))
    areas = []
    for seed in seeds:
        points = [
            (r["residual"], r[measure])
            for r in own
            if r["seed"] == seed and r["strength"] in common and r[measure] is not None
        ]
        areas.append(1 - hypervolume(points, worst=(1.0, 0.5)))
    return np.array(areas)


def lower(first: NDArray[np.float64], second: NDArray[np.float64], margin: float = 0.0) -> bool:
    """Tell whether the first is lower by more than a margin and twice its standard error."""
    differences = second - first
    known = differences[np.isfinite(differences)]
    if not len(known):
        return False
    error = known.std(ddof=1) / len(known) ** 0.5 if len(known) > 1 else 0.0
    return bool(known.mean() > max(margin, 2 * error))


def not_lower(first: NDArray[np.float64], second: NDArray[np.float64], margin: float) -> bool:
    """Tell whether the first is known and not lower by more than a margin."""
    return bool(np.isfinite(second - first).any()) and not lower(first, second, margin)


def mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the values that are defined."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def spread(values: NDArray[np.float64]) -> str:
    """Return mean and standard deviation over the runs, as text."""
    known = values[np.isfinite(values)]
    if not len(known):
        return "undefined"
    average = float(known.mean())
    form = ".3f" if average == 0 or 0.001 <= abs(average) < 10 else ".2g"
    text = f"{average:{form}}"
    if len(known) > 1:
        text += f" ± {known.std(ddof=1):{form}}"
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)} runs)"


def from_to(first: Runs, last: Runs) -> tuple[str, str]:
    """Return both measures of fairness of two sets of runs, as text."""
    unfairness, leakage = (f"{first.text(m)} to {last.text(m)}" for m in MEASURES)
    return unfairness, leakage


def each(runs: Mapping[str, Runs], measure: str) -> str:
    """Return one measure of several methods, as text."""
    return "; ".join(f"{method} {own.text(measure)}" for method, own in runs.items())


def blind(runs: Mapping[str, Runs]) -> tuple[str, ...]:
    """Return a remark on methods whose groups the classifier misses and attackers find."""
    missed = [
        method
        for method, own in runs.items()
        if own.mean("leakage") - own.mean("balanced") > 2 * MARGIN
    ]
    if not missed:
        return ()
    return (
        f"The paper's classifier does not standardize the columns of {' and '.join(missed)} and "
        "misses the groups in some or all runs. Attackers that standardize the columns find them",
    )


def nothing_to_find(runs: Runs) -> tuple[str, ...]:
    """Return a remark if the classifier is no better than the most frequent answer."""
    if not runs.mean("unfairness") - runs.mean("floor") < MARGIN:
        return ()
    return (
        "Without a penalty, the paper's classifier is already no better than always answering the "
        "majority, so unfairness cannot fall",
    )


def reveals_more(pairs: Mapping[str, tuple[Runs, Runs]]) -> tuple[str, ...]:
    """Return a remark on methods with more leakage with their penalty than without it."""
    found = [
        f"{method} (by {mean(on['leakage'] - off['leakage']):.3f})"
        for method, (off, on) in pairs.items()
        if lower(off["leakage"], on["leakage"], MARGIN)
    ]
    if not found:
        return ()
    return (f"Leakage rises with the penalty of {' and '.join(found)}",)
