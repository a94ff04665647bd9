"""Selection of a fit whose guarantee holds: the least noise at which a certificate is good enough.

People share places (`Transport` with a leakage), which bounds what the holder of all exact rows
learns with hardly any noise. Other guarantees take the first strength at which the criterion is at
chance, and more and more noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from parafair.audits import STAGES, Verdict
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.errors import Interrupted, shown
from parafair.guarantees.advantage import advantage_without_noise, explained_without_noise
from parafair.guarantees.groups import codes_of
from parafair.model.checks import AUDIT, POPULATION, RELEASE
from parafair.model.noise import Noise
from parafair.model.preparation import Settings
from parafair.model.strength import USUAL, OnAudit, Round, Search
from parafair.model.task import Task
from parafair.model.trials import CERTIFIED, NOT_CERTIFIED, OnTrial, Selection, Trial
from parafair.penalties import Transport
from parafair.penalties.transport import MOST_GROUPS, PARTS
from parafair.solvers import Fit, Status
from parafair.solvers.decomposition import repair
from parafair.solvers.fitting import complete
from parafair.solvers.loop import Counted, OnIteration

# The first noise, as a share of the spread, and its multiples: the first that suffices is taken.
# With shared places they cost an audit each and no fit, so there are more of them.
FIRST_NOISE, MULTIPLES = 0.05, (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FINER = tuple(2 ** (k / 2) for k in range(13))

# With few folds an attacker often lacks the others of a place, whose groups tell it the answer. So
# people who share places are audited with more folds before the slow attackers run.
OF_PLACES: tuple[Round, ...] = (USUAL[0], ("quick", 10), *USUAL[1:])

# Places are shared by groups: combinations of features, with numbers cut into parts. They may
# reveal more of a feature than of the groups. Then places are made again, for a leakage that is
# lower by as much, and by this share.
MOST_REPAIRS, LOWER = 4, 0.97

# The leakage of shared places and the certified one round differently.
ROUNDING = 1e-9

# All statements about the trials hold together with this confidence.
CONFIDENCE = 0.95

# Returns the certified leakage (P) of new people, for a released fit with noise of a given size.
OfPopulation = Callable[[Fit, float, float], float]


def select_guaranteed(
    task: Task,
    *,
    plain: Fit,
    wanted: tuple[str, ...],
    of_population: OfPopulation | None = None,
    on_iteration: OnIteration | None = None,
    on_trial: OnTrial | None = None,
    on_audit: OnAudit | None = None,
) -> Selection:
    """Return the fit with the least noise that has all wanted guarantees.

    Args:
        task: A fit with a `CalibratedPenalty`. A given noise is the smallest of all trials.
        plain: The plain decomposition, where all fits begin.
        wanted: Some of "audit", "release", "population".
        of_population: Certifies held-out people; for "population".
        on_iteration: Called after each iteration, as in `solve_batch`.
        on_trial: Called after each trial.
        on_audit: Called after each attacker of an audit.

    Raises:
        Interrupted: On Ctrl-C, with the plain decomposition.
    """
    problem, settings = task.problem, task.settings
    search = Search(task, plain, Counted(on_iteration), on_audit)
    most = float(settings.model.max_leakage)
    first = FIRST_NOISE if settings.model.noise is None else float(settings.model.noise)
    found: list[tuple[Fit, Trial]] = []
    trials: list[Trial] = []

    def tell(fit: Fit, trial: Trial) -> bool:
        trials.append(trial)
        if on_trial is not None:
            on_trial(trial)
        return False

    try:
        strength, fit_with = _start(search, wanted, most, tell)
        shared = strength is None
        multiples = FINER if shared else MULTIPLES
        for multiple in multiples:
            noise = replace(task.noise(first * multiple, strength=strength), cheapest=shared)
            fit = fit_with(noise.level)
            deviation = search.deviation(fit)
            released = noise.release(problem, fit)
            certified = _certified(
                task,
                fit,
                noise,
                released,
                wanted=wanted,
                trials=len(multiples),
                of_population=of_population,
            )
            trial = Trial(strength, noise.level, released.residual, deviation, certified=certified)
            if certified is not None and certified > most + ROUNDING:
                trial = replace(trial, verdict=NOT_CERTIFIED)
            elif AUDIT in wanted:
                trial = search.audited(released, trial, OF_PLACES if shared else USUAL)
            else:
                trial = replace(trial, verdict=CERTIFIED)
            found.append((released, trial))
            tell(released, trial)
            if trial.passes:
                break
    except KeyboardInterrupt as error:
        # A trial that has not all that is wanted is no better than the plain decomposition.
        fit = replace(complete(problem, plain), status=Status.INTERRUPTED)
        raise Interrupted(fit, strength=0.0, noise=0.0) from error
    released, trial = _nearest(found, most)
    return Selection(released, trial.strength, trial.noise, tuple(trials))


def _start(
    search: Search, wanted: tuple[str, ...], most: float, tell: Callable[[Fit, Trial], bool]
) -> tuple[float | None, Callable[[float], Fit]]:
    """Return a strength, and the fit without noise as a function of the noise that it will have."""
    task = search.task
    # People whose rows follow from their entries cannot share places.
    own_rows = task.settings.encoder is None
    if RELEASE in wanted and own_rows and _can_share(task.problem.penalized_features):
        fit = _with_shared_places(search, most)
        return None, lambda noise: fit
    strength = search.on_the_way().first_strength(tell)
    return strength, lambda noise: search.fit(strength, noise)


def _can_share(features: SensitiveFeatures) -> bool:
    """Return whether people share places; raise if categories make too many groups for that."""
    if any(column.kind == "numeric" for column in features.columns):
        return len(features.joint(PARTS).categories) <= MOST_GROUPS
    Transport().check(features)
    return True


def _with_shared_places(search: Search, most: float) -> Fit:
    """Return a fit whose places reveal each feature by at most `most`, if that can be had."""
    problem, seed = search.task.problem, search.task.settings.seed
    features = problem.penalized_features
    unpenalized = replace(problem, penalty=None, other_sensitive={})
    leakage = most
    for _ in range(MOST_REPAIRS):
        transport = Transport(seed, leakage=leakage)
        factors = repair(unpenalized, search.plain.cp.factors, transport=transport)
        rows = problem.penalized_rows(factors[problem.mode])
        found = max(_without_noise(rows, column) for column in features.columns)
        if found <= most + ROUNDING:
            break
        leakage *= LOWER * most / found
    return complete(problem, search.plain.with_factors(unpenalized, factors))


def _without_noise(rows: Tensor, column: Column) -> float:
    """Return what exact rows reveal of a feature."""
    if column.kind == "numeric":
        return explained_without_noise(rows, column.encode()[:, 0])
    return advantage_without_noise(rows, codes_of(column, rows))


def _certified(
    task: Task,
    fit: Fit,
    noise: Noise,
    released: Fit,
    *,
    wanted: tuple[str, ...],
    trials: int,
    of_population: OfPopulation | None,
) -> float | None:
    """Return the largest leakage that the wanted certificates allow; None without any.

    All trials together have the confidence.
    """
    from parafair.guarantees import certify_rows  # here, because few fits need it

    problem = task.problem
    confidence = 1 - (1 - CONFIDENCE) / trials
    found = []
    if RELEASE in wanted:
        features = problem.penalized_features
        rows = problem.penalized_rows(fit.cp.factors[problem.mode])
        matrix = noise.of_people(problem, fit)
        if matrix.any():
            certificate = certify_rows(
                rows,
                features,
                noise=matrix,
                confidence=confidence,
                random_state=task.settings.seed % 2**32,
            )
            found.append(certificate.leakage(RELEASE))
        else:  # few people who all share one place have no spread, so their noise is 0
            found.append(max(_without_noise(rows, column) for column in features.columns))
    if POPULATION in wanted:
        assert of_population is not None
        found.append(of_population(released, noise.level, confidence))
    return max(found, default=None)


def _nearest(found: list[tuple[Fit, Trial]], most: float) -> tuple[Fit, Trial]:
    """Return the trial that passed, else the one nearest to it.

    More attackers find more, so a trial that all of them have audited comes first.
    """

    def missing(pair: tuple[Fit, Trial]) -> tuple[bool, float, bool, float]:
        trial = pair[1]
        beyond = max(0.0, (trial.certified or 0.0) - most - ROUNDING)
        return not trial.passes, beyond, trial.panel != STAGES[-1], trial.leakage or 0.0

    return min(found, key=missing)


def check_held_out(held_out: object, settings: Settings, side: object = None) -> None:
    """Raise unless held-out people are given where they are needed, and only there."""
    needed = settings.automatic and POPULATION in settings.wanted
    if needed and not (isinstance(held_out, (tuple, list)) and len(held_out) in (2, 3)):
        raise ValueError(
            "guarantee='population' needs people who are not in X, as held_out=(entries, "
            "sensitive features), or with side information as (entries, sensitive features, "
            f"side); got {shown(held_out)}. Use split_people to set some apart"
        )
    if needed and side is not None and len(held_out) == 2:  # type: ignore[arg-type]
        raise ValueError(
            "held_out has no side information, but the training people have; pass "
            "held_out=(entries, sensitive features, side)"
        )
    if needed and side is None and len(held_out) == 3:  # type: ignore[arg-type]
        raise ValueError(
            "held_out has side information, but the training people have none; pass "
            "held_out=(entries, sensitive features), or side"
        )
    if held_out is not None and not needed:
        raise ValueError(
            "held_out is for strength='auto' with guarantee='population'; leave it out, or use "
            "certify after the fit"
        )


def not_found(selection: Selection, most: float) -> str:
    """Return what to say if no trial had what was wanted: how near it came, and what would help."""
    chosen = selection.chosen
    if chosen.certified is None:
        last = selection.trials[-1]
        return (
            f"no strength passed the audit at max_leakage={most}: the search ended at strength "
            f"{last.strength:.3g} ({last.verdict}); strength {selection.strength:.3g} was used, "
            "which has the least leakage of those that were audited by the most attackers. Try a "
            "larger max_leakage or more people; see selection_.trials"
        )
    near, remedy = f"certifies {chosen.certified:.3g}", "more people or held-out people"
    if chosen.leakage is not None:
        inconclusive = chosen.verdict == Verdict.INCONCLUSIVE.value
        near += (
            " but its audit is inconclusive"
            if inconclusive
            else f" but leaks {chosen.leakage:.3g} in the audit"
        )
        remedy = "more people, whom noise hides better"
    return (
        f"nothing has the wanted guarantee at max_leakage={most}: the nearest trial, with noise "
        f"{chosen.noise:.3g}, {near}. Try a larger max_leakage, {remedy}, or a lower rank; see "
        "selection_.trials"
    )
