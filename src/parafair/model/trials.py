"""Trials of a search for the strength, and the one that was selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parafair.audits import Verdict
from parafair.display import view
from parafair.solvers import Fit

NOT_AUDITED, CERTIFIED, NOT_CERTIFIED = "not audited", "certified", "not certified"


@dataclass(frozen=True)
class Trial:
    """One strength on the path.

    Attributes:
        strength: The strength; None if people share places instead (`Transport`).
        noise: Noise added to the rows, relative to their standard deviation.
        residual: The relative residual, with the noise.
        deviation: Root mean square of the criterion's statistics before noise, in standard
            deviations of independent rows. Independent rows have about 1.
        leakage: Leakage in the audit; None without an audit.
        verdict: The audit's verdict, such as "passes", or "not audited"; if a guarantee was asked
            for, also "certified" and "not certified".
        panel: The last panel of attackers in the audit: "quick" if they found it to leak, "slow"
            for all attackers; None without an audit.
        people: Number of people of a rough fit to a sample of them; None for everybody.
        certified: Largest leakage of a released row that is certified, (F) or (P); None if nothing
            was asked for.
    """

    strength: float | None
    noise: float
    residual: float
    deviation: float
    leakage: float | None = None
    verdict: str = NOT_AUDITED
    panel: str | None = None
    people: int | None = None
    certified: float | None = None

    @property
    def passes(self) -> bool:
        """Whether it has all that was asked for: the audit passed, or the certificate suffices."""
        return self.verdict in (Verdict.PASSES.value, CERTIFIED)

    def __str__(self) -> str:
        leakage = "" if self.leakage is None else f", leakage {self.leakage:.3f}"
        people = "" if self.people is None else f" ({self.people:,} people)"
        what = "shared places" if self.strength is None else f"strength {self.strength:.3g}"
        certified = "" if self.certified is None else f", certified {self.certified:.4f}"
        return (
            f"{what}, noise {self.noise:.3g}{people}: residual {self.residual:.4f}, criterion at "
            f"{self.deviation:.2f} sd{certified}{leakage}: {self.verdict}"
        )


OnTrial = Callable[[Trial], None]


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The selected strength, and all strengths tried.

    Attributes:
        fit: The fit at the selected strength.
        strength: The selected strength; None if people share places instead.
        noise: Noise added to the rows, relative to their standard deviation.
        trials: All trials, in order.
    """

    fit: Fit
    strength: float | None
    noise: float
    trials: tuple[Trial, ...]

    def __repr__(self) -> str:
        what = "shared places" if self.strength is None else f"strength {self.strength:.3g}"
        return (
            f"Selection({what}, noise {self.noise:.3g}: {self.verdict}; {len(self.trials)} trials)"
        )

    def _repr_html_(self) -> str:
        from parafair.model.view import selection_parts

        return view(repr(self), *selection_parts(self))

    @property
    def chosen(self) -> Trial:
        """The selected trial."""
        settings = (self.strength, self.noise)
        return next(t for t in self.trials if (t.strength, t.noise) == settings)

    @property
    def verdict(self) -> str:
        """The verdict of the selected trial."""
        return self.chosen.verdict

    @property
    def passed(self) -> bool:
        """Whether a trial passed the audit; if none did, the one that leaks least was selected."""
        return any(trial.passes for trial in self.trials)
