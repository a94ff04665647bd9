"""The result of a frontier: one point per fit, the Pareto-efficient ones, and a choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from parafair.arguments import instance_of, one_of, real_number
from parafair.audits import check_max_leakage
from parafair.audits.evaluation import Evaluation
from parafair.data.frames import frame_of
from parafair.data.sensitive import SensitiveFeatures
from parafair.display import view
from parafair.frontiers.choice import Wanted
from parafair.frontiers.coverage import Coverage
from parafair.frontiers.hypervolume import hypervolume
from parafair.frontiers.point import Point
from parafair.model.estimator import FairCP
from parafair.model.preparation import Settings
from parafair.model.record import Record, current_versions, rebuild_params
from parafair.model.training import Training
from parafair.model.tucker import FairTucker, kind_of
from parafair.solvers.result import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Frontier:
    """Fits at many strengths, of one method or several.

    Attributes:
        points: All fits, in order of method, strength, noise and seed.
        limit: Pairs of a leakage and the smallest residual of any model with that leakage.
        sensitive: The sensitive features.
        settings: Settings by method, as values for JSON.
        training: Metadata of the training data, by method.
        coverage: Counts of observed data; None if unavailable.
        baseline: Errors on held-out entries of predictions from offsets alone, without people;
            None without held-out entries.
        classes: The caller's own classes that methods and solvers may have.
    """

    points: tuple[Point, ...]
    limit: tuple[tuple[float, float], ...]
    sensitive: SensitiveFeatures
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Training] = field(default_factory=dict)
    coverage: Coverage | None = None
    baseline: Evaluation | None = None
    classes: tuple[type, ...] = ()

    def __len__(self) -> int:
        return len(self.points)

    def __add__(self, other: Frontier) -> Frontier:
        """Return the points of both frontiers, to compare methods on the same data."""
        for m, n, name in product(
            self.settings, other.settings, ("data", "test", "mode", "audits")
        ):
            mine, theirs = self.settings[m].get(name), other.settings[n].get(name)
            if mine != theirs:
                raise ValueError(
                    f"frontiers with different {name} cannot be compared: {m!r} has {mine!r}, "
                    f"{n!r} has {theirs!r}; use the same settings for both"
                )
        twice = set(self.settings) & set(other.settings)
        if twice:
            raise ValueError(
                f"both frontiers have a method {sorted(twice)[0]!r}; set name= in one of them"
            )
        return replace(
            self,
            points=self.points + other.points,
            limit=self.limit or other.limit,
            settings={**self.settings, **other.settings},
            training={**self.training, **other.training},
            classes=(*self.classes, *other.classes),
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return tuple(dict.fromkeys(point.member.method for point in self.points))

    def of(self, method: str) -> Frontier:
        """Return the points of one method."""
        one_of("method", method, self.methods)
        points = tuple(point for point in self.points if point.member.method == method)
        kept = {name: value for name, value in self.settings.items() if name == method}
        return replace(self, points=points, settings=kept)

    @property
    def audited(self) -> tuple[Point, ...]:
        """Points with an audit."""
        return tuple(point for point in self.points if point.audit is not None)

    @cached_property
    def efficient(self) -> tuple[Point, ...]:
        """The Pareto-efficient points: no other point has a smaller residual and less leakage.

        Leakage below zero counts as zero. Points that do not pass are included.
        """
        found: list[Point] = []
        for point in sorted(self.audited, key=lambda point: (point.residual, point.leakage)):
            if not found or max(point.leakage, 0.0) < max(found[-1].leakage, 0.0):
                found.append(point)
        return tuple(found)

    def best(
        self,
        *,
        max_leakage: float | None = None,
        max_residual: float | None = None,
        guarantee: str | None = None,
        max_certified: float | None = None,
    ) -> Point:
        """Return the smallest residual within a leakage, or the least leakage within a residual.

        Args:
            max_leakage: The largest allowed leakage. `Audit.verdict` decides which points pass.
            max_residual: The largest allowed residual.
            guarantee: With "release" or "matrix", the certified leakage of this kind must be within
                the limit too; see `Certificate`. None for measured leakage alone.
            max_certified: The largest allowed certified leakage; None for max_leakage.

        Raises:
            ValueError: If no point qualifies; the message has the nearest value.
        """
        if (max_leakage is None) == (max_residual is None):
            raise ValueError("pass either max_leakage or max_residual, got both or none")
        wanted = Wanted.of(max_leakage, guarantee, max_certified)
        if max_residual is not None:
            real_number("max_residual", max_residual, least=0)
        if not self.audited:
            raise ValueError(
                "no point has an audit, so none can be chosen; run the frontier with audits"
            )
        if wanted is not None:
            point = wanted.best(self.audited)
            if point is None:
                raise wanted.none_found(self.audited)
            return point
        assert max_residual is not None
        allowed = [point for point in self.audited if point.residual <= max_residual]
        if not allowed:
            least = min(point.residual for point in self.audited)
            raise ValueError(
                f"no point has residual <= {max_residual}; the smallest is {least:.4g}. Raise "
                "max_residual or the rank"
            )
        return min(allowed, key=lambda point: (point.leakage, point.residual))

    def best_or_none(
        self,
        max_leakage: float,
        *,
        guarantee: str | None = None,
        max_certified: float | None = None,
    ) -> Point | None:
        """Return the point of ``best(max_leakage=...)``, or None if no point qualifies."""
        check_max_leakage(max_leakage)
        wanted = Wanted.of(max_leakage, guarantee, max_certified)
        assert wanted is not None
        return wanted.best(self.audited)

    def pick(
        self,
        *,
        max_leakage: float | None = None,
        max_residual: float | None = None,
        guarantee: str | None = None,
        max_certified: float | None = None,
    ) -> FairCP | FairTucker:
        """Return the fitted model of `best`, which has the same arguments."""
        point = self.best(
            max_leakage=max_leakage,
            max_residual=max_residual,
            guarantee=guarantee,
            max_certified=max_certified,
        )
        return self.model(point)

    def model(self, point: Point) -> FairCP | FairTucker:
        """Return the fitted model of one of the points."""
        member = instance_of("point", point, Point, "pass one of points").member
        if member.method not in self.settings:
            raise ValueError(f"point {member.id} is not one of this frontier; pass one of points")
        settings, training = self.settings[member.method], self.training[member.method]
        params = dict(settings["params"])
        if member.strength is not None:
            if isinstance(params["method"], Mapping):
                params["method"] = {**params["method"], "strength": member.strength}
            else:
                params["strength"] = member.strength
        params = rebuild_params(params, classes=self.classes) | {"random_state": member.seed}
        model = kind_of(params)(**params)
        if Settings.of(model).noise_at(member.strength) != member.noise:
            model.set_params(noise=member.noise)
        record = Record(
            params=model.get_params(deep=False),
            strength=member.strength,
            noise=member.noise if point.fit.noise else 0.0,
            ridge=settings["ridge"],
            seed=member.seed,
            shape=tuple(settings["shape"]),
            dtype=settings["dtype"],
            device=str(point.fit.cp.weights.device),
            versions={name: settings[name] for name in current_versions()},
        )
        return type(model).from_fit(point.fit, record=record, training=training)

    def hypervolume(self, worst: tuple[float, float] | None = None) -> float:
        """Return the share of the plane that the efficient points dominate; larger is better.

        This is the area of residual and leakage in which some point is at least as good in both.
        Leakage below zero counts as zero.

        Args:
            worst: The upper corner of the area; None for a residual of 1 (nothing explained) and
                the leakage of perfect predictions.
        """
        if worst is None:
            worst = (1.0, most_leakage(self.sensitive))
        return hypervolume([(p.residual, p.leakage) for p in self.efficient], worst)

    def rows(self) -> list[dict[str, Any]]:
        """Return the tidy table as values for JSON; "efficient" is within the method."""
        own = {id(point) for method in self.methods for point in self.of(method).efficient}
        return [{**point.row(), "efficient": id(point) in own} for point in self.points]

    def to_frame(self) -> DataFrame:
        """Return the tidy table: one row per point."""
        return frame_of(self.rows(), for_what="Frontier.to_frame")

    def plot(self, *, max_leakage: float | None = None, ax: Axes | None = None) -> Axes:
        """Draw residual against leakage of all audited fits.

        Filled marks are Pareto-efficient within their method. A bar is the certified leakage. A
        triangle: an attacker is significantly above or below chance. Gray: left of the limit.

        Args:
            max_leakage: Put a ring around the fit of ``best(max_leakage=...)``; None for no ring.
            ax: Axes of matplotlib to draw on; None for those of a new figure.
        """
        from parafair.frontiers.pictures import plot

        return plot(self, max_leakage=max_leakage, ax=ax)

    def __repr__(self) -> str:
        failed = sum(point.fit.status is Status.DIVERGED for point in self.points)
        text = f"Frontier({len(self)} fits of {', '.join(self.methods)}"
        if self.audited:
            ends = self.efficient[0], self.efficient[-1]
            text += "; " + " to ".join(f"({p.residual:.3f}, {p.leakage:.3f})" for p in ends)
            text += " in (residual, leakage)"
        return text + (f"; {failed} diverged)" if failed else ")")

    def _repr_html_(self) -> str:
        from parafair.frontiers.view import frontier_parts

        return view(f"Frontier of {', '.join(self.methods)}", *frontier_parts(self))


def most_leakage(sensitive: SensitiveFeatures) -> float:
    """Return the leakage of perfect predictions."""
    return max(
        1.0 - 1 / len(column.categories) if column.kind == "categorical" else 1.0
        for column in sensitive.columns
    )


def mean_residuals(points: Sequence[Point]) -> dict[float, float]:
    """Return the mean residual over seeds at each strength, in order of strength."""
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
