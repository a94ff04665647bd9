"""One fit of a frontier, and its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parafair.audits import Audit, Verdict
from parafair.audits.evaluation import Evaluation
from parafair.frontiers.certified import certified_columns
from parafair.guarantees.certificate import Certificate
from parafair.solvers.result import Fit


@dataclass(frozen=True)
class Member:
    """The key of a fit: method, strength, noise and seed.

    Attributes:
        method: The method's name.
        strength: The multiplier of its penalty; None for a method without one.
        seed: Seed of the initial factors and of the noise.
        noise: The noise of the release, a share of the spread; 0 for none.
    """

    method: str
    strength: float | None
    seed: int
    noise: float = 0.0

    @property
    def id(self) -> str:
        """A name for its folder."""
        strength = "" if self.strength is None else f"-{self.strength!r}"
        noise = f"-noise{self.noise!r}" if self.noise else ""
        return f"{self.method}{strength}{noise}-seed{self.seed}"

    @property
    def before_noise(self) -> tuple[float | None, int]:
        """What the fit depends on before noise is added; members with the same share it."""
        return self.strength, self.seed

    @property
    def order(self) -> tuple[float, float, int]:
        """The place of the member among those of its method."""
        return self.strength or 0.0, self.noise, self.seed


@dataclass(frozen=True, eq=False)
class Point:
    """One fit, its audit, its errors on held-out entries and its certificate.

    Attributes:
        member: The key of the fit.
        fit: The fit.
        audit: Its audit; None without audits, or if the fit diverged.
        evaluation: Errors on held-out entries; None without any, or if the fit diverged.
        certificate: Bounds on what every attacker learns; None without noise, without
            certificates, or if the fit diverged.
    """

    member: Member
    fit: Fit
    audit: Audit | None = None
    evaluation: Evaluation | None = None
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        leakage = "" if self.audit is None else f", leakage {self.leakage:.3f}"
        return f"Point({self.member.id}: residual {self.residual:.4f}{leakage})"

    @property
    def residual(self) -> float:
        """The relative residual."""
        return self.fit.residual

    @property
    def leakage(self) -> float:
        """The strongest attacker's advantage over chance; NaN without an audit."""
        return float("nan") if self.audit is None else self.audit.leakage

    def certified(self, kind: str = "release") -> float:
        """Return the certified leakage, as `Certificate.leakage`; NaN without a certificate."""
        return float("nan") if self.certificate is None else self.certificate.leakage(kind)

    def verdict(self, max_leakage: float) -> Verdict:
        """Return the verdict of its audit; see `Audit.verdict`."""
        if self.audit is None:
            raise ValueError(f"{self.member.id} has no audit and so no verdict; run it with audits")
        return self.audit.verdict(max_leakage)

    def row(self) -> dict[str, Any]:
        """Return the point's row of the tidy table."""
        low, high = (None, None) if self.audit is None else self.audit.leakage_interval
        return {
            "method": self.member.method,
            "strength": self.member.strength,
            "noise": self.member.noise,
            "seed": self.member.seed,
            "residual": self.residual,
            "criterion": self._measure("criterion", "value"),
            "null": self._measure("criterion", "chance"),
            "leakage": None if self.audit is None else self.leakage,
            "low": low,
            "high": high,
            "p_value": self._measure("independence p-value", "value"),
            "below_chance": None if self.audit is None else self.audit.below_chance,
            **certified_columns(self.certificate),
            "rmse": None if self.evaluation is None else self.evaluation.value("rmse"),
            "mae": None if self.evaluation is None else self.evaluation.value("mae"),
            "rmse_gap": None if self.evaluation is None else self.evaluation.gap("rmse"),
            "ks": None if self.evaluation is None else self.evaluation.largest("KS"),
            "status": self.fit.status.name.lower(),
            "n_iter": self.fit.n_iter,
            "seconds": self.fit.seconds,
        }

    def _measure(self, name: str, attribute: str) -> float | None:
        """Return a measure of the audit; with several features, the most dependent one's."""
        if self.audit is None:
            return None
        rows = [r for r in self.audit.rows if r.section == "dependence" and r.measure == name]
        values = [float(getattr(row, attribute)) for row in rows]
        return min(values) if name.endswith("p-value") else max(values)
