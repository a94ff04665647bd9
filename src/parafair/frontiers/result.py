"""What a frontier found: one point per fit, which of them are worth having, and a choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from parafair import penalties, solvers
from parafair.audits import Audit
from parafair.audits.evaluation import Evaluation
from parafair.data.frames import frame_of
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import kernels
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.hypervolume import hypervolume
from parafair.model.estimator import FairCP
from parafair.model.training import Training
from parafair.penalties import postprocessing
from parafair.records import describe, rebuild
from parafair.solvers.result import Fit, Status

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Member:
    """Which fit: a method, its strength and the seed of its start.

    Attributes:
        method: The method's name.
        strength: The multiplier of its penalty; None for a method without one.
        seed: Seed of the start.
    """

    method: str
    strength: float | None
    seed: int

    @property
    def id(self) -> str:
        """A name that can be a folder."""
        strength = "" if self.strength is None else f"-{self.strength!r}"
        return f"{self.method}{strength}-seed{self.seed}"


@dataclass(frozen=True, eq=False)
class Point:
    """One fit, its audit and how well it predicts.

    Attributes:
        member: Which fit it is.
        fit: The fit.
        audit: What attackers found; None if none was asked for, or if the fit diverged.
        evaluation: Errors of held-out entries; None if none were held out, or if it diverged.
    """

    member: Member
    fit: Fit
    audit: Audit | None = None
    evaluation: Evaluation | None = None

    @property
    def residual(self) -> float:
        """The relative residual."""
        return self.fit.residual

    @property
    def leakage(self) -> float:
        """The strongest attacker's advantage over chance; NaN without an audit."""
        return float("nan") if self.audit is None else self.audit.leakage

    def row(self) -> dict[str, Any]:
        """Return the line of the point in a tidy table."""
        low, high = (None, None) if self.audit is None else self.audit.leakage_interval
        return {
            "method": self.member.method,
            "strength": self.member.strength,
            "seed": self.member.seed,
            "residual": self.residual,
            "criterion": self._measure("criterion", "value"),
            "null": self._measure("criterion", "chance"),
            "leakage": None if self.audit is None else self.leakage,
            "low": low,
            "high": high,
            "p_value": self._measure("independence p-value", "value"),
            "below_chance": None if self.audit is None else self.audit.below_chance,
            "rmse": None if self.evaluation is None else self.evaluation.value("rmse"),
            "mae": None if self.evaluation is None else self.evaluation.value("mae"),
            "rmse_gap": None if self.evaluation is None else self.evaluation.gap("rmse"),
            "status": self.fit.status.name.lower(),
            "rounds": self.fit.n_iter,
            "seconds": self.fit.seconds,
        }

    def _measure(self, name: str, attribute: str) -> float | None:
        """Return a number of the audit; of several features, that of the most dependent."""
        if self.audit is None:
            return None
        rows = [r for r in self.audit.rows if r.section == "dependence" and r.measure == name]
        values = [float(getattr(row, attribute)) for row in rows]
        return min(values) if name.endswith("p-value") else max(values)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Fits from no fairness to much of it, of one method or of several.

    Attributes:
        points: All fits, in order of method, strength and seed.
        limit: Leakage and the least residual that any model with it can have, as pairs.
        sensitive: The features.
        settings: What was asked for, by method: plain values.
        training: What models remember of their data, by method.
        coverage: How much of the data there was; None if it is not known.
        baseline: Errors of held-out entries predicted without people, by the mean and what each
            index of the other modes adds to it; None if none were held out.
    """

    points: tuple[Point, ...]
    limit: tuple[tuple[float, float], ...]
    sensitive: SensitiveFeatures
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Training] = field(default_factory=dict)
    coverage: Coverage | None = None
    baseline: Evaluation | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __add__(self, other: Frontier) -> Frontier:
        """Return the points of both, to compare methods on the same data."""
        same = {
            name: (self.settings[m].get(name), other.settings[n].get(name))
            for m in self.settings
            for n in other.settings
            for name in ("data", "held_out", "mode", "center", "audits")
        }
        for name, (mine, theirs) in same.items():
            if mine != theirs:
                raise ValueError(
                    f"frontiers with different {name} cannot be compared: {mine!r} and {theirs!r}"
                )
        twice = set(self.settings) & set(other.settings)
        if twice:
            raise ValueError(f"both frontiers have a method {sorted(twice)[0]!r}; give it a name")
        return replace(
            self,
            points=self.points + other.points,
            limit=self.limit or other.limit,
            settings={**self.settings, **other.settings},
            training={**self.training, **other.training},
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return tuple(dict.fromkeys(point.member.method for point in self.points))

    def of(self, method: str) -> Frontier:
        """Return the part of one method."""
        if method not in self.methods:
            raise ValueError(f"method must be one of {', '.join(self.methods)}, got {method!r}")
        points = tuple(point for point in self.points if point.member.method == method)
        kept = {name: value for name, value in self.settings.items() if name == method}
        return replace(self, points=points, settings=kept)

    @property
    def audited(self) -> tuple[Point, ...]:
        """Points with an audit."""
        return tuple(point for point in self.points if point.audit is not None)

    @cached_property
    def efficient(self) -> tuple[Point, ...]:
        """Audited points than which no other has less residual and less leakage.

        Leakage below zero is no success, and counts as zero. Points whose people are matched
        across groups are among them: see `Audit.below_chance`.
        """
        found: list[Point] = []
        for point in sorted(self.audited, key=lambda point: (point.residual, point.leakage)):
            if not found or max(point.leakage, 0.0) < max(found[-1].leakage, 0.0):
                found.append(point)
        return tuple(found)

    @property
    def _sound(self) -> tuple[Point, ...]:
        """Audited points without over-matching, or all if it is in each of them."""
        sound = (point for point in self.audited if point.audit and not point.audit.below_chance)
        return tuple(sound) or self.audited

    def best(self, *, leakage: float | None = None, residual: float | None = None) -> Point:
        """Return the point with the least residual at a leakage, or the other way around.

        Args:
            leakage: The most leakage allowed. Points whose people are matched across groups
                (see `Audit.below_chance`) are left out while there are others.
            residual: The most residual allowed.

        Raises:
            ValueError: If no point is allowed; the message says what is there.
        """
        if (leakage is None) == (residual is None):
            raise ValueError("give either leakage or residual, and not both")
        if not self.audited:
            raise ValueError("no point has an audit, so there is nothing to choose by")
        if residual is not None:
            allowed = [point for point in self._sound if point.residual <= residual]
            if not allowed:
                least = min(point.residual for point in self._sound)
                raise ValueError(
                    f"no point has residual <= {residual}; the least is {least:.4g}. Allow more, "
                    "or raise the rank"
                )
            return min(allowed, key=lambda point: (point.leakage, point.residual))
        allowed = [point for point in self.audited if point.leakage <= float(leakage or 0.0)]
        if not allowed:
            least = min(point.leakage for point in self.audited)
            raise ValueError(
                f"no point has leakage <= {leakage}; the least is {least:.4g}. Allow more, or add "
                "larger strengths"
            )
        sound = [point for point in allowed if point.audit and not point.audit.below_chance]
        return min(sound or allowed, key=lambda point: (point.residual, point.leakage))

    def pick(self, *, leakage: float | None = None, residual: float | None = None) -> FairCP:
        """Return the model of `best`, fitted."""
        point = self.best(leakage=leakage, residual=residual)
        return self.model(point)

    def model(self, point: Point) -> FairCP:
        """Return the fitted model of a point."""
        settings = self.settings[point.member.method]
        method: Any = "none"
        if settings["penalty"] is not None:
            described = dict(settings["penalty"])
            if point.member.strength is not None:
                described["strength"] = point.member.strength
            method = rebuild(described, (penalties, postprocessing, kernels))
        # In the form in which a model writes its settings, so that it can be saved and loaded.
        own = {"method": None if method == "none" else describe(method), "n_init": 1}
        return FairCP.from_fit(
            replace(point.fit, settings={**settings, **own, "seed": point.member.seed}),
            training=self.training[point.member.method],
            method=method,
            mode=settings["mode"],
            ridge=settings["ridge"],
            center=settings["center"],
            solver=rebuild(settings["solver"], (solvers,)),
            start=settings["start"],
            max_iter=settings["max_iter"],
            tol=settings["tol"],
            random_state=point.member.seed,
        )

    def hypervolume(self, worst: tuple[float, float] | None = None) -> float:
        """Return the share of the plane that the efficient points are better than.

        The area of residual and leakage in which some point is at least as good in both;
        leakage below zero counts as zero. More is better.

        Args:
            worst: The corner of the area; None is a residual of 1 (nothing is explained) and
                the leakage of certainty.
        """
        if worst is None:
            worst = (1.0, most_leakage(self.sensitive))
        return hypervolume([(p.residual, p.leakage) for p in self.efficient], worst)

    def rows(self) -> list[dict[str, Any]]:
        """Return the tidy table as plain values; "efficient" is within the method."""
        own = {id(point) for method in self.methods for point in self.of(method).efficient}
        return [{**point.row(), "efficient": id(point) in own} for point in self.points]

    def to_frame(self) -> DataFrame:
        """Return the tidy table: a line per point."""
        return frame_of(self.rows(), for_what="Frontier.to_frame")

    def __repr__(self) -> str:
        failed = sum(point.fit.status is Status.DIVERGED for point in self.points)
        text = f"Frontier({len(self)} fits of {', '.join(self.methods)}"
        if self.audited:
            ends = self.efficient[0], self.efficient[-1]
            text += "; " + " to ".join(f"({p.residual:.3f}, {p.leakage:.3f})" for p in ends)
            text += " in (residual, leakage)"
        return text + (f"; {failed} diverged)" if failed else ")")


def most_leakage(sensitive: SensitiveFeatures) -> float:
    """Return the leakage of an attacker who is always right."""
    return max(
        1.0 - 1 / len(column.categories) if column.kind == "categorical" else 1.0
        for column in sensitive.columns
    )


def mean_residuals(points: Sequence[Point]) -> dict[float, float]:
    """Return the mean over seeds of the residual at each strength, in order of strength."""
    by_strength: dict[float, list[float]] = {}
    for point in points:
        if point.member.strength is not None and point.fit.status is not Status.DIVERGED:
            by_strength.setdefault(point.member.strength, []).append(point.residual)
    return {strength: float(np.mean(by_strength[strength])) for strength in sorted(by_strength)}


def join(frontiers: Iterable[Frontier]) -> Frontier:
    """Return the points of several frontiers on the same data."""
    first, *others = frontiers
    for other in others:
        first = first + other
    return first
