"""Which point of a frontier is picked: by its audit, and if wanted by its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parafair.arguments import one_of, real_number
from parafair.audits import Verdict, check_max_leakage
from parafair.guarantees.statements import MATRIX, RELEASE, rounded_up

if TYPE_CHECKING:
    from parafair.frontiers.point import Point

# Statements about the people of a frontier; that about a population needs held-out people.
GUARANTEES = (RELEASE, MATRIX)
MORE_HELP = (
    "use more noise, as in frontier(noises=...), method='transport', or data with more people"
)


@dataclass(frozen=True)
class Wanted:
    """What a point must have to be picked.

    Attributes:
        max_leakage: The largest leakage at which its audit must pass.
        guarantee: The kind of statement that must bound the leakage too; None for none.
        max_certified: The largest certified leakage.
    """

    max_leakage: float
    guarantee: str | None
    max_certified: float

    @classmethod
    def of(
        cls, max_leakage: float | None, guarantee: str | None, max_certified: float | None
    ) -> Wanted | None:
        """Check the arguments of `Frontier.best`; None without a leakage."""
        if max_leakage is not None:
            check_max_leakage(max_leakage)
        if guarantee is not None:
            one_of("guarantee", guarantee, GUARANTEES)
            if max_leakage is None:
                raise ValueError(
                    f"guarantee={guarantee!r} needs max_leakage, but max_residual was given; pass "
                    "max_leakage"
                )
        if max_certified is not None:
            real_number("max_certified", max_certified, least=0, most=1)
            if guarantee is None:
                raise ValueError(
                    f"max_certified={max_certified!r} is for a guarantee; pass guarantee='release'"
                )
        if max_leakage is None:
            return None
        level = max_leakage if max_certified is None else max_certified
        return cls(float(max_leakage), guarantee, float(level))

    def best(self, points: Sequence[Point]) -> Point | None:
        """Return the point with the smallest residual among those that qualify; None if none does.

        Args:
            points: Audited points.
        """
        found = [p for p in points if self._passes(p) and self._is_certified(p)]
        return min(found, key=lambda p: (p.residual, p.leakage), default=None)

    def _passes(self, point: Point) -> bool:
        return self._verdict(point) is Verdict.PASSES

    def _verdict(self, point: Point) -> Verdict:
        return point.verdict(self.max_leakage)

    def _is_certified(self, point: Point) -> bool:
        # NaN without a certificate is not within any limit.
        return self.guarantee is None or point.certified(self.guarantee) <= self.max_certified

    def none_found(self, points: Sequence[Point]) -> ValueError:
        """Return the error that says how near the points are, and what would help."""
        passing = [point for point in points if self._passes(point)]
        if self.guarantee is None or not passing:
            return self._all_leak(points)
        certified = [point for point in points if point.certificate is not None]
        if not certified:
            return ValueError(
                f"no point has a certificate, so guarantee={self.guarantee!r} cannot be given; run "
                "the frontier with noise, as in FairCP(noise=0.5), and with certificates={}, which "
                "certifies any number of people"
            )
        wanted = (
            f"no point that passes at max_leakage={self.max_leakage:g} has a certified leakage "
            f"({self.guarantee}) of at most {self.max_certified:g}"
        )
        near = [point for point in passing if point.certificate is not None]
        if near:
            wanted += f"; the nearest is {self._words(min(near, key=self._certified))}"
        least = min(certified, key=self._certified)
        if not near or self._certified(least) < min(map(self._certified, near)):
            wanted += (
                f"; the least of all, {self._words(least)}, has a measured leakage of "
                f"{least.leakage:.3f} and does not pass"
            )
        return ValueError(f"{wanted}. To get nearer, {MORE_HELP}; or raise max_certified")

    def _certified(self, point: Point) -> float:
        assert self.guarantee is not None
        return point.certified(self.guarantee)

    def _words(self, point: Point) -> str:
        bound = rounded_up(self._certified(point))
        return f"{bound:.4f} of {point.member.id} (residual {point.residual:.4f})"

    def _all_leak(self, points: Sequence[Point]) -> ValueError:
        least = min(points, key=lambda point: point.leakage)
        why = ""
        if self._verdict(least) is Verdict.INCONCLUSIVE:
            why = ", but there are too few people to decide (inconclusive)"
        elif least.leakage <= self.max_leakage:
            why = " with an attacker significantly off chance"
        return ValueError(
            f"no point passes at max_leakage={self.max_leakage}; the smallest leakage is "
            f"{least.leakage:.4g}{why}. Raise max_leakage, or add other strengths or more people"
        )
