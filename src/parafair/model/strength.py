"""Selection of the strength: the passing embedding with the smallest residual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import Tensor

from parafair.audits import STAGES, Verdict, audit, panel
from parafair.errors import Interrupted
from parafair.model.noise import Noise, default_noise
from parafair.penalties import CalibratedPenalty, Dependence
from parafair.solvers import Fit, Solver, Status, Stop, solve_batch
from parafair.solvers.loop import OnIteration
from parafair.solvers.path import fill_empty
from parafair.solvers.problem import Problem
from parafair.solvers.result import best

# The path starts at the plain fit and a weak penalty, and takes long steps until the criterion is
# near its null level; then it takes short steps.
FIRST_STRENGTH, LONG_STEP, SHORT_STEP, LAST_STRENGTH = 2.0**-4, 2.0, 2**0.5, 1e4

# A warm-started fit progresses slowly until extrapolation sets in; it must not stop before that.
PATH_TOL_SHARE, PATH_WINDOW = 0.3, 20

# The search audits fewer people than an audit does by default, and the last stage alone has as many
# folds.
MAX_PEOPLE, FOLDS, LAST_FOLDS = 2000, 3, 5

# Another audit, with other folds, finds a little more or less. So the search continues after a pass
# if the strongest raw advantage exceeds max_leakage and leakage exceeds this share of it.
MARGIN = 0.5

# The search ends after this many strengths at which people are matched across groups: larger
# strengths make it worse.
MOST_MATCHED = 2

# Noise to try, if it is larger than that of the model.
NOISES = (0.1, 0.15, 0.2, 0.3, 0.4)

NOT_AUDITED = "not audited"


@dataclass(frozen=True)
class Trial:
    """One strength on the path.

    Attributes:
        strength: The strength.
        residual: The relative residual.
        criterion: The criterion of the penalty.
        null: Its mean over permutations of the people.
        leakage: Leakage in the audit; None without an audit.
        verdict: The audit's verdict, such as "passes", or "not audited".
        clear: Whether it passed with a margin for the variation between audits.
        noise: Noise added to the rows, relative to their standard deviation in every whitened
            direction.
        matched: Whether the strongest attacker is below chance: people are matched across groups.
    """

    strength: float
    residual: float
    criterion: float
    null: float
    leakage: float | None
    verdict: str
    clear: bool = False
    noise: float = 0.0
    matched: bool = False

    @property
    def passes(self) -> bool:
        """Whether the audit passed."""
        return self.verdict == Verdict.PASSES.value

    def __str__(self) -> str:
        leakage = "" if self.leakage is None else f", leakage {self.leakage:.3f}"
        noise = f", noise {self.noise:g}" if self.noise else ""
        level = f"criterion {self.criterion / self.null:.2f} of its null level"
        matched = " (below chance)" if self.matched else ""
        return (
            f"strength {self.strength:.3g}{noise}: residual {self.residual:.4f}, {level}{leakage}: "
            f"{self.verdict}{matched}"
        )


OnTrial = Callable[[Trial], None]
# Called with the number of finished attackers of an audit, and with the number of all.
OnAudit = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected strength, and all strengths tried.

    Attributes:
        fit: The fit at the selected strength.
        strength: The selected strength.
        noise: Noise added to the rows, relative to their standard deviation.
        trials: All trials, in order.
    """

    fit: Fit
    strength: float
    noise: float
    trials: tuple[Trial, ...]

    @property
    def verdict(self) -> str:
        """The verdict of the selected trial."""
        chosen = (self.strength, self.noise)
        return next(t.verdict for t in self.trials if (t.strength, t.noise) == chosen)

    @property
    def passed(self) -> bool:
        """Whether a trial passed the audit; if none did, the closest to passing was selected."""
        return any(trial.passes for trial in self.trials)


def select_strength(
    problem: Problem,
    solver: Solver[Any],
    *,
    starts: tuple[Tensor, ...],
    stop: Stop,
    max_leakage: float,
    noise: float | None = None,
    seed: int = 0,
    on_iteration: OnIteration | None = None,
    on_trial: OnTrial | None = None,
    on_audit: OnAudit | None = None,
) -> Selection:
    """Follow a path of strengths, each fit warm-started from the last, until the audit passes.

    The plain fit is audited first. Then an embedding is audited once its criterion is at or below
    its null level. If a quick attacker still exceeds the allowed leakage, only a larger strength
    helps. Otherwise more noise may: it hides differences along a single axis, which trees find, and
    it breaks the matching of people across groups, which puts attackers below chance. The path then
    continues as long as a larger strength with less noise may have a smaller residual.

    Args:
        problem: A problem with a `CalibratedPenalty`; its strength is replaced.
        solver: The solver.
        starts: One factor (batch, size, rank) per mode; the path continues from the best start.
        stop: When a fit stops.
        max_leakage: The largest allowed leakage, as in `Audit.verdict`.
        noise: The smallest noise of a trial; None for the default of the penalty.
        seed: Seed of the audits and of the noise.
        on_iteration: Called after each iteration, as in `solve_batch`.
        on_trial: Called after each strength.
        on_audit: Called after each attacker of an audit.

    Raises:
        Interrupted: On Ctrl-C, with the fit at the last finished strength.
    """
    penalty = problem.penalty
    assert isinstance(penalty, CalibratedPenalty)
    criterion = penalty.criterion(problem.penalized_features, problem.prototype)
    stop = replace(stop, tol=PATH_TOL_SHARE * stop.tol, window=max(stop.window, PATH_WINDOW))
    found: list[tuple[Fit, Trial]] = []
    matched = 0
    latest: Fit | None = None
    try:
        for strength in _strengths(found):
            member = replace(problem, penalty=replace(penalty, strength=strength))  # type: ignore[type-var]
            fits = solve_batch(member, solver, starts=starts, stop=stop, on_iteration=on_iteration)
            fit = best(fits)
            latest = fit = _after(replace(fit, cp=fill_empty(problem, fit.cp)), found)
            starts = tuple(factor.unsqueeze(0) for factor in fit.cp.factors)
            if fit.residual >= _least_clear(found):
                break
            before = len(found)
            for pair in _judged(
                member,
                criterion,
                fit,
                max_leakage,
                _noises(member, noise),
                seed,
                on_audit,
                below=_least_clear(found),
            ):
                found.append(pair)
                if on_trial is not None:
                    on_trial(pair[1])
            first = found[before][1]
            matched += first.matched
            if matched == MOST_MATCHED or first.clear:
                break
    except KeyboardInterrupt as error:
        # The last finished strength is better than an unfinished one.
        if latest is None:
            raise
        raise Interrupted(replace(latest, status=Status.INTERRUPTED)) from error
    chosen = _choose(found)
    return replace(chosen, fit=chosen.fit.with_plain(problem))


def _strengths(found: list[tuple[Fit, Trial]]) -> Iterator[float]:
    """Yield strengths: long steps until the criterion is near its null level, then short ones."""
    yield 0.0
    strength = FIRST_STRENGTH
    while strength <= LAST_STRENGTH:
        yield strength
        trial = found[-1][1]
        strength *= LONG_STEP if trial.criterion > 2 * trial.null else SHORT_STEP


def _after(fit: Fit, found: list[tuple[Fit, Trial]]) -> Fit:
    """Return the fit with the time of the path before it added."""
    before = found[-1][0].seconds if found else 0.0
    history = tuple(replace(entry, seconds=entry.seconds + before) for entry in fit.history)
    return replace(fit, history=history)


def _judged(
    problem: Problem,
    criterion: Dependence,
    fit: Fit,
    max_leakage: float,
    noises: Sequence[float],
    seed: int,
    on_audit: OnAudit | None,
    *,
    below: float,
) -> Iterator[tuple[Fit, Trial]]:
    """Yield a fit and its trial with increasing noise, until it passes.

    Only fits with a residual below `below` are audited.
    """
    assert problem.penalty is not None
    for noise in noises:
        judged = Noise(noise, seed).release(problem, fit)
        if judged.residual >= below:
            return
        embedding = problem.penalized_rows(judged.cp.factors[problem.mode])
        value = float(criterion.value_and_gradient(embedding)[0])
        null = float(criterion.null(embedding))
        found = _NOT_AUDITED
        if value <= null or not problem.penalty.strength:
            found = _audit_in_stages(embedding, problem, max_leakage, seed, on_audit)
        trial = Trial(
            float(problem.penalty.strength),
            judged.residual,
            value,
            null,
            found.leakage,
            found.verdict,
            found.clear,
            noise,
            found.matched,
        )
        yield judged, trial
        if trial.clear or found.coarse or not problem.penalty.strength:
            return


def _noises(problem: Problem, noise: float | None) -> tuple[float, ...]:
    """Return the noise of a model at the strength of a trial, and larger ones."""
    assert problem.penalty is not None
    least = default_noise(problem.penalty, problem.penalty.strength) if noise is None else noise
    return (least, *(larger for larger in NOISES if larger > least))


class _Audited(NamedTuple):
    """What an audit says about a fit.

    Attributes:
        leakage: Leakage, or None without an audit.
        verdict: The verdict, or "not audited".
        clear: Whether it is a clear pass.
        coarse: Whether noise cannot help.
        matched: Whether the strongest attacker is below chance.
    """

    leakage: float | None
    verdict: str
    clear: bool
    coarse: bool
    matched: bool = False


_NOT_AUDITED = _Audited(None, NOT_AUDITED, clear=False, coarse=True)


def _audit_in_stages(
    rows: Tensor, problem: Problem, max_leakage: float, seed: int, on_audit: OnAudit | None
) -> _Audited:
    """Audit an embedding in stages, from quick to slow attackers, as long as it passes.

    Most strengths fail at the quick attackers, so the slow ones run rarely.
    """
    for stage in STAGES:
        result = audit(
            rows.cpu(),
            sensitive_features=problem.penalized_features,
            attackers=panel(stage),
            folds=LAST_FOLDS if stage == STAGES[-1] else FOLDS,
            permutations=1,
            max_people=MAX_PEOPLE,
            random_state=seed,
            on_progress=on_audit,
        )
        verdict, strongest = result.verdict(max_leakage), result.strongest
        matched = verdict is Verdict.LEAKS and strongest.advantage < 0
        close = strongest.gain > max_leakage and result.leakage > MARGIN * max_leakage
        if verdict is Verdict.LEAKS or close:
            break
    return _Audited(
        result.leakage,
        verdict.value,
        clear=verdict is Verdict.PASSES and not close,
        coarse=stage == STAGES[0] and result.leakage > max_leakage and not matched,
        matched=matched,
    )


def _least_clear(found: list[tuple[Fit, Trial]]) -> float:
    """Return the smallest residual among the trials that passed clearly."""
    return min((trial.residual for _, trial in found if trial.clear), default=float("inf"))


def _choose(found: list[tuple[Fit, Trial]]) -> Selection:
    """Select the smallest residual that passed clearly, else passed, else the weakest attackers."""
    trials = tuple(trial for _, trial in found)
    passed = [pair for pair in found if pair[1].clear] or [p for p in found if p[1].passes]
    if passed:
        fit, trial = min(passed, key=lambda pair: pair[1].residual)
    else:
        audited = [pair for pair in found if pair[1].leakage is not None] or found[-1:]
        fit, trial = min(audited, key=lambda pair: pair[1].leakage or 0.0)
    return Selection(fit, trial.strength, trial.noise, trials)
