"""Selection of the strength: the first on a path whose embedding passes the audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.audits import STAGES, Verdict
from parafair.audits.attacker import Stage
from parafair.encoders.result import encoder_of
from parafair.errors import Interrupted
from parafair.model.task import Task
from parafair.model.trials import OnTrial, Selection, Trial
from parafair.penalties import CalibratedPenalty, Dependence
from parafair.solvers import Fit, Status, decompose_from
from parafair.solvers.fitting import complete, ladder_of
from parafair.solvers.ladder import Ladder
from parafair.solvers.loop import Counted, OnIteration
from parafair.solvers.precision import solve_single
from parafair.solvers.problem import Problem
from parafair.solvers.race import ROUNDS
from parafair.solvers.steady import steadily

# Rough fits follow a path of strengths until the criterion is at chance.
FIRST_STRENGTH, LAST_STRENGTH = 2.0**-4, 2.0**12
# The next strength is this multiple of the last, if that was clearly dependent, and otherwise.
FAR_STEP, NEAR_STEP = 16.0, 4.0
# They need no more people than this: the strength at chance hardly depends on their number.
MOST_ON_THE_WAY = 3000
# From there on, fits in full are audited: at these multiples of the strength and of the noise.
AUDITED = ((1.0, 1.0), (4.0, 1.0), (16.0, 1.0), (16.0, 2.0), (16.0, 4.0))
# With more people than on the way, a fit takes minutes and more noise takes none, so a fit at
# chance that leaks gets more noise before there is a stronger one.
AUDITED_OF_MANY = tuple((more, noisier) for more in (1.0, 4.0, 16.0) for noisier in (1.0, 2.0, 4.0))
# Encoders are learned with their noise, which is larger and matters more.
ENCODED = ((1.0, 1.0), (4.0, 1.0), (4.0, 2.0), (16.0, 4.0))

# Root mean square of the criterion's statistics, in standard deviations. Independent rows have
# about 1. Above the first value a plain fit is not worth an audit. Below the second one a penalized
# fit is: statistics that a fit has made small may be offset by others that it has made negative, so
# they must be far smaller than those of independent rows.
CLEARLY_DEPENDENT, AT_CHANCE = 3.0, 0.25
# The same with people in chunks: their statistics are those of chunks that were never fitted, so
# independent rows have about 1.
INDEPENDENT = 1.5
# Below this value, a fit in full at the next strength is likely at chance.
NEARLY_AT_CHANCE = 0.75
# What is left of a dependence is more standard deviations with more people: about with this power
# of their number.
GROWTH = 1 / 3

# As many people as an audit has by default: attackers find more with more of them.
MAX_PEOPLE = 5000
# Most fits that leak fail at the quick attackers with few folds, so the slow ones run rarely, and
# only they have as many folds as an audit does by default.
Round = tuple[Stage, int]
USUAL: tuple[Round, ...] = (("quick", 3), ("slow", 5))

# Called with the number of finished attackers of an audit, and with the number of all.
OnAudit = Callable[[int, int], None]


def select_strength(
    task: Task,
    *,
    plain: Fit,
    on_iteration: OnIteration | None = None,
    on_trial: OnTrial | None = None,
    on_audit: OnAudit | None = None,
) -> Selection:
    """Return the fit at the smallest strength that passes the audit.

    The plain fit is audited first, unless the criterion finds it clearly dependent. Then rough
    fits, each from the last and to a sample if there are many people, follow a path of strengths
    until the criterion's statistics are at chance. That strength and larger ones, the last with
    more and more noise, are fitted as `FairCP` does it and audited by all attackers, up to the
    first that passes; with many people, every strength with more and more noise. Because the
    criterion has its minimum at chance, a strength that is too large costs residual, but does not
    match people across groups.

    Args:
        task: A fit with a `CalibratedPenalty`; its strength is replaced. A given noise is the
            smallest of all trials.
        plain: The plain decomposition, where all fits begin.
        on_iteration: Called after each iteration, as in `solve_batch`; the iterations of all fits
            are numbered one after the other.
        on_trial: Called after each strength.
        on_audit: Called after each attacker of an audit.

    Raises:
        Interrupted: On Ctrl-C, with the fit at the last finished strength.
    """
    problem = task.problem
    search = Search(task, plain, Counted(on_iteration), on_audit)
    found: list[tuple[Fit, Trial]] = []
    trials: list[Trial] = []

    def keep(fit: Fit, trial: Trial) -> bool:
        trials.append(trial)
        # Without the encoder that was asked for, a fit is no candidate.
        if trial.people is None and (task.settings.encoder is None or encoder_of(fit)):
            found.append((fit, trial))
        if on_trial is not None:
            on_trial(trial)
        return trial.passes

    try:
        if not keep(*search.judge(0.0, search.unpenalized(), CLEARLY_DEPENDENT)):
            way = search.on_the_way()
            strength = way.first_strength(keep)
            too_weak: set[float] = set()
            for more, noisier in search.audited_in_order(many=way.people is not None):
                audited = strength * more
                if audited in too_weak:
                    continue
                fit = search.fit(audited, search.noise_at(audited, noisier))
                # The strongest is audited in any case, and so is an encoder, because its rows are
                # at chance with their noise alone.
                always = more == AUDITED[-1][0] or task.settings.encoder is not None
                most = float("inf") if always else search.at_chance
                released, trial = search.judge(audited, fit, most, noisier=noisier)
                if keep(released, trial):
                    break
                if trial.panel is None:
                    too_weak.add(audited)
    except KeyboardInterrupt as error:
        # The last finished strength is better than an unfinished one.
        if found:
            last, trial = found[-1]
        else:
            last, trial = task.noise(0.0).release(problem, complete(problem, plain)), None
        raise Interrupted(
            replace(last, status=Status.INTERRUPTED),
            strength=0.0 if trial is None else trial.strength,
            noise=0.0 if trial is None else trial.noise,
        ) from error
    return _choose(found, tuple(trials))


@dataclass(frozen=True, eq=False)
class Search:
    """What all trials share; see `select_strength`.

    Attributes:
        task: The fit.
        plain: The plain decomposition.
        counted: Numbers the iterations.
        on_audit: Called after each attacker of an audit.
        people: Number of people in a sample; None for everybody.
        growth: How many times as many standard deviations there would be with everybody.
        fits: Finished fits by strength.
    """

    task: Task
    plain: Fit
    counted: Counted
    on_audit: OnAudit | None
    people: int | None = None
    growth: float = 1.0
    fits: dict[float, Fit] = field(default_factory=dict)

    def audited_in_order(self, *, many: bool) -> Sequence[tuple[float, float]]:
        """Return the multiples of strength and noise that are audited, in order.

        Args:
            many: Whether there are more people than on the way.
        """
        if self.task.settings.encoder is not None:
            return ENCODED
        return AUDITED_OF_MANY if many else AUDITED

    def on_the_way(self) -> Search:
        """Return the search for the first strength: with a sample, if there are many people."""
        problem = self.task.problem
        features = problem.penalized_features
        if len(features) <= MOST_ON_THE_WAY:
            return self
        random = np.random.RandomState(self.task.settings.seed % 2**32)
        drawn = features.sample(MOST_ON_THE_WAY, random)
        everybody = problem.penalized
        places = drawn if everybody is None else everybody.cpu().numpy()[drawn]
        few = problem.of_people(places, features.take(drawn))
        factors = list(self.plain.cp.factors)
        factors[problem.mode] = factors[problem.mode][torch.from_numpy(places)]
        return replace(
            self,
            task=replace(self.task, problem=few),
            plain=replace(self.plain, cp=CPTensor.from_factors(factors)),
            people=len(places),
            growth=(len(features) / len(places)) ** GROWTH,
        )

    def first_strength(self, keep: Callable[[Fit, Trial], bool]) -> float:
        """Return the first strength whose fit is likely at chance.

        Args:
            keep: Called with each rough fit that is not at chance.
        """
        strength, rough = FIRST_STRENGTH, self.plain
        while strength < LAST_STRENGTH:
            rough = self.rough(strength, rough)
            released, trial = self.release(strength, complete(self.task.problem, rough))
            of_everybody = trial.deviation * self.growth
            if of_everybody <= AT_CHANCE:
                break
            keep(released, trial)
            strength *= FAR_STEP if trial.deviation > CLEARLY_DEPENDENT else NEAR_STEP
            if of_everybody <= NEARLY_AT_CHANCE:
                break
        return strength

    @property
    def at_chance(self) -> float:
        """The largest deviation of a fit in full that is worth an audit."""
        return INDEPENDENT if self.at(0.0).in_chunks else AT_CHANCE

    @cached_property
    def criterion(self) -> Dependence:
        """The measure of dependence, without the strength."""
        problem = self.task.problem
        assert isinstance(problem.penalty, CalibratedPenalty)
        return problem.penalty.criterion(problem.penalized_features, problem.prototype)

    def at(self, strength: float) -> Problem:
        """Return the problem with another strength; all of them share the bound penalty."""
        problem = self.task.problem
        return problem.with_strengths(
            torch.tensor([strength], dtype=torch.float64, device=problem.prototype.device)
        )

    @cached_property
    def ladder(self) -> Ladder:
        """Rough fits with which fits in full begin."""
        settings = self.task.settings
        return ladder_of(
            self.task.problem,
            settings.solver,
            plain=[self.plain],
            stop=settings.stop,
            counted=self.counted,
        )

    def rough(self, strength: float, start: Fit) -> Fit:
        """Return a rough fit from another one; less rough to a sample, which takes little time."""
        with steadily(self.task.problem):
            (fit,) = solve_single(
                self.at(strength),
                self.task.settings.solver,
                starts=tuple(factor.unsqueeze(0) for factor in start.cp.factors),
                stop=ROUNDS[0 if self.people is None else -1].stop(self.task.settings.stop),
                on_iteration=self.counted.later(),
            )
        return fit

    def fit(self, strength: float, noise: float) -> Fit:
        """Return the fit at a strength, as `FairCP` fits it, without noise.

        Args:
            strength: The strength.
            noise: The noise that it will have, with which an encoder is learned.
        """
        if self.task.settings.encoder is not None:
            later = self.counted.later()
            return self.task.learn(self.plain, strength, noise, on_iteration=later)
        if strength not in self.fits:
            (self.fits[strength],) = decompose_from(
                self.at(strength),
                self.task.settings.solver,
                plain=[self.plain],
                stop=self.task.settings.stop,
                ladder=self.ladder,
                on_iteration=self.counted.later(),
            )
        return self.fits[strength]

    def unpenalized(self) -> Fit:
        """Return the fit at strength 0: with its encoder, if it may be independent."""
        fit = complete(self.task.problem, self.plain)
        if self.task.settings.encoder is None or self.deviation(fit) > CLEARLY_DEPENDENT:
            return fit
        return self.fit(0.0, self.noise_at(0.0))

    def noise_at(self, strength: float, noisier: float = 1.0) -> float:
        """Return a multiple of the noise of a fit at a strength."""
        return self.task.settings.noise_at(strength) * noisier

    def deviation(self, fit: Fit) -> float:
        """Return the root mean square of the criterion's statistics."""
        problem = self.task.problem
        rows = problem.penalized_rows(fit.cp.factors[problem.mode])
        return float(self.criterion.deviations(rows).double().square().mean().sqrt())

    def release(self, strength: float, fit: Fit, *, noisier: float = 1.0) -> tuple[Fit, Trial]:
        """Return a fit with noise, and its trial, not audited.

        Args:
            strength: The strength of the fit.
            fit: The fit, without noise.
            noisier: Multiple of the noise.
        """
        level = self.noise_at(strength, noisier)
        released = self.task.noise(level, strength=strength).release(self.at(strength), fit)
        return released, Trial(
            strength, level, released.residual, self.deviation(fit), people=self.people
        )

    def judge(
        self, strength: float, fit: Fit, most: float, *, noisier: float = 1.0
    ) -> tuple[Fit, Trial]:
        """Return a fit with noise, and its trial, audited.

        Args:
            strength: The strength of the fit.
            fit: The fit, without noise.
            most: The largest deviation that is audited.
            noisier: Multiple of the noise.
        """
        released, trial = self.release(strength, fit, noisier=noisier)
        return released, trial if trial.deviation > most else self.audited(released, trial)

    def audited(self, released: Fit, trial: Trial, rounds: Sequence[Round] = USUAL) -> Trial:
        """Return the trial of a released fit after its audit.

        Args:
            released: The fit, with noise.
            trial: Its trial, not audited.
            rounds: Panels of attackers with numbers of folds, up to the first that finds a leak.
        """
        from parafair.audits import audit, panel  # here, because fits of a given strength need none

        problem, settings = self.task.problem, self.task.settings
        rows = problem.penalized_rows(released.cp.factors[problem.mode]).cpu()
        for stage, folds in rounds:
            result = audit(
                rows,
                sensitive_features=problem.penalized_features,
                attackers=panel(stage),
                folds=folds,
                permutations=1,
                max_people=MAX_PEOPLE,
                random_state=settings.seed % 2**32,
                on_progress=self.on_audit,
            )
            verdict = result.verdict(float(settings.model.max_leakage))
            if verdict is Verdict.LEAKS:
                break
        return replace(trial, leakage=result.leakage, verdict=verdict.value, panel=stage)


def _choose(found: list[tuple[Fit, Trial]], trials: tuple[Trial, ...]) -> Selection:
    """Select the smallest residual that passed, else the least leakage.

    More attackers find more, so leakages are compared among trials audited by all of them, if any.
    """
    passed = [pair for pair in found if pair[1].passes]
    if passed:
        fit, trial = min(passed, key=lambda pair: pair[1].residual)
    else:
        by_all = [pair for pair in found if pair[1].panel == STAGES[-1]]
        audited = [pair for pair in found if pair[1].panel is not None]
        fit, trial = min(by_all or audited or found[-1:], key=lambda pair: pair[1].leakage or 0.0)
    return Selection(fit, trial.strength, trial.noise, trials)
