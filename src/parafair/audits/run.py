"""The audit: checks, sampling, trials of the attackers, and the rows of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import callback, jobs, whole_number
from parafair.audits.answers import GroupAnswers
from parafair.audits.attacker import Attacker
from parafair.audits.attackers import ATTACKERS, resolve_attackers
from parafair.audits.dependence import MOST_TESTED, dependence_rows, paper_rows
from parafair.audits.features import (
    LEAST_PEOPLE,
    OTHER,
    check_count,
    check_groups,
    check_new,
    in_robust_units,
    join,
    most_folds,
)
from parafair.audits.inputs import EXTREME, extreme_people
from parafair.audits.intervals import draw_people, inflate, leakage, simultaneous
from parafair.audits.people import People
from parafair.audits.predictions import (
    group_rows,
    overall_rows,
    predict_target,
    read_target,
)
from parafair.audits.result import ACCURACY, AUC, R_SQUARED, RANK_CORRELATION, Audit, Measure
from parafair.audits.trials import Plan, Trials, try_attackers
from parafair.data.column import Column
from parafair.data.randomness import RandomState, as_random
from parafair.data.raw_features import check_index
from parafair.data.sensitive import SensitiveFeatures
from parafair.progress import Bar, check_verbose, tracked

# The inner cross-validation trains a model without each pair of folds.
MOST_FOLDS = 20

# Extreme people that are named in the remarks.
MOST_NAMED = 3


def audit(  # noqa: PLR0913  (each argument is a setting of its own)
    embedding: Any,
    *,
    sensitive_features: Any,
    new_embedding: Any = None,
    new_sensitive_features: Any = None,
    target: Any = None,
    attackers: Iterable[str] | Mapping[str, Any] | None = None,
    folds: int = 5,
    repeats: int = 1,
    permutations: int = 200,
    max_people: int = 5000,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    on_progress: Callable[[int, int], None] | None = None,
    verbose: int = 0,
) -> Audit:
    """Measure how much an embedding reveals about each sensitive feature, and about all jointly.

    Attackers predict a feature from standardized columns, from whitened ones and from ranks, so
    neither scale, correlation nor a few people far away can hide it. They are cross-validated:
    balanced accuracy and AUC for a category, R squared and rank correlation for a number. An
    attacker may turn its answers around, so one below chance leaks too. The 95 % intervals are
    simultaneous over all attackers of a feature. A permutation test and the paper's measures,
    which depend on the scale of the columns, are reported too.

    Args:
        embedding: One row per person, shape (n, rank).
        sensitive_features: One row per person: array, Series, DataFrame or `SensitiveFeatures`.
        new_embedding: Rows of new people, shape (m, rank). With them, attackers are trained on
            the people of `embedding` and tested on these; all measures are about these.
        new_sensitive_features: The features of the new people, with the same columns.
        target: A downstream target, one value per person. Models are trained to predict it, and
            their cross-validated predictions are compared between groups; needs fairlearn.
        attackers: Names of registered attackers, see `parafair.audits.ATTACKERS`;
            or a dictionary from a name to a scikit-learn estimator or an `Attacker`.
            By default all registered attackers.
        folds: Number of folds of the cross-validation, at most 20; fewer if the largest group is
            smaller.
        repeats: Number of cross-validations, each with other folds.
        permutations: Number of permutations of the independence test.
        max_people: Larger data is sampled down to this many people, some of every group.
        n_jobs: Number of processes; None is one, or the setting of `joblib.parallel_config`;
            -1 is all processors. Results do not depend on it.
        random_state: Seed of the sample, the folds, the attackers and the permutations.
        on_progress: Called after each trial with the number of trials done and their total.
        verbose: 1 shows a bar, 2 also prints the leakage of each feature; 0 shows nothing.
    """
    check_verbose(verbose)
    jobs("n_jobs", n_jobs)
    callback("on_progress", on_progress)
    known = People.of(embedding, sensitive_features)
    chosen = check_settings(
        known.sensitive, attackers=attackers, folds=folds, repeats=repeats,
        permutations=permutations, max_people=max_people,
    )  # fmt: skip
    new = _read_new(known, new_embedding, new_sensitive_features, target)
    check_index(target, embedding, name="target")
    wanted = None if target is None else read_target(target, len(known))
    random = as_random(random_state)
    people, places = _sample(known, new, max_people, random)
    wanted = None if wanted is None else wanted.take(places)
    first = 0 if new is None else len(places)
    tested = np.arange(first, len(people))
    columns, joint = _features(people.sensitive, folds, tested)
    _check_kinds(chosen, columns)
    seed = int(random.randint(2**31))
    plan = Plan(most_folds(columns, folds), repeats, n_jobs, people.precision, seed, first)
    rows, measures, total = people.rows[tested], [], _count_trials(chosen, columns)
    with tracked("audit", verbose) as bar:
        progress = _Progress(on_progress, total, bar)
        predicted = [] if wanted is None else predict_target(rows, wanted, plan)
        for column in columns:
            trials = try_attackers(people.rows, column, chosen, plan, progress.advance)
            found = _attacker_rows(trials, column, plan)
            measures += found
            own = column.take(tested)
            measures += dependence_rows(rows, own, permutations=permutations, plan=plan)
            measures += group_rows(predicted, own)
            if column is not joint:
                measures += paper_rows(rows, own, seed=seed)
            bar.note(f"{column.name}: leakage {found[0].value:.3f}")
    measures += overall_rows(predicted)
    remarks = _remarks(people, joint, chosen, plan, folds)
    population = len(known) if new is None else len(new)
    return Audit(tuple(measures), len(tested), population, tuple(remarks))


# What help(audit) shows is what is registered.
audit.__doc__ = (audit.__doc__ or "").replace(
    "see `parafair.audits.ATTACKERS`", "some of " + ", ".join(f'"{name}"' for name in ATTACKERS)
)


def check_settings(
    sensitive: SensitiveFeatures,
    *,
    attackers: Iterable[str] | Mapping[str, Any] | None = None,
    folds: int = 5,
    repeats: int = 1,
    permutations: int = 200,
    max_people: int = 5000,
) -> dict[str, Attacker]:
    """Return the attackers; raise if an audit with these settings would fail."""
    whole_number("folds", folds, least=2, most=MOST_FOLDS)
    whole_number("repeats", repeats)
    whole_number("permutations", permutations)
    whole_number("max_people", max_people, least=LEAST_PEOPLE)
    check_count(len(sensitive))
    check_groups(sensitive)
    return resolve_attackers(attackers)


def _check_kinds(attackers: dict[str, Attacker], columns: list[Column]) -> None:
    """Refuse features that no attacker can predict."""
    for column in columns:
        if not any(attacker.predicts(column.kind) for attacker in attackers.values()):
            model = "classifier" if column.kind == "categorical" else "regressor"
            raise ValueError(
                f"attackers has no {model}, but sensitive feature {column.name!r} is "
                f"{column.kind}; add a scikit-learn {model}"
            )


def _read_new(known: People, embedding: Any, features: Any, target: Any) -> People | None:
    """Return the checked new people; None if there are none."""
    if (embedding is None) != (features is None):
        missing = "new_embedding" if embedding is None else "new_sensitive_features"
        raise ValueError(f"{missing} is missing; new people need a row and features each")
    if embedding is None:
        return None
    if target is not None:
        raise ValueError(
            "target cannot be combined with new_embedding: the target is predicted by "
            "cross-validation; leave one of them out"
        )
    read = known.sensitive.read(features)
    new = People.of(embedding, read, name="new_embedding")
    if new.rows.shape[1] != known.rows.shape[1]:
        raise ValueError(
            f"new_embedding has {new.rows.shape[1]} columns but embedding has "
            f"{known.rows.shape[1]}; pass rows of the same model"
        )
    check_new(known.sensitive, new.sensitive)
    return new


def _sample(
    known: People, new: People | None, max_people: int, random: np.random.RandomState
) -> tuple[People, NDArray[np.intp]]:
    """Return the known people, then the new ones, and the places of those taken of the known."""
    places = known.places(max_people, random)
    people = known.take(places)
    if new is not None:
        people = people.followed_by(new.take(new.places(max_people, random)))
    return people, places


def _features(
    sensitive: SensitiveFeatures, folds: int, tested: NDArray[np.intp]
) -> tuple[list[Column], Column | None]:
    """Return the features as they are attacked, including the joint feature, and the latter."""
    joint = join(sensitive, folds, tested)
    columns = [in_robust_units(column) for column in sensitive.columns]
    return columns + ([] if joint is None else [joint]), joint


def _remarks(
    people: People,
    joint: Column | None,
    attackers: dict[str, Attacker],
    plan: Plan,
    folds: int,
) -> Iterator[str]:
    """Yield sentences about what was left out or done differently."""
    if plan.known:
        yield f"attackers were trained on {plan.known} people and tested on new ones"
    elif plan.folds < folds:
        yield f"there were {plan.folds} folds instead of {folds}, because groups are small"
    extreme = extreme_people(people.rows)
    if len(extreme):
        named = ", ".join(repr(str(name)) for name in people.names[extreme[:MOST_NAMED]])
        more = f" and {len(extreme) - MOST_NAMED} more" if len(extreme) > MOST_NAMED else ""
        yield (
            f"people far from all others, by more than {EXTREME:g} robust standard deviations in "
            f"a column: {named}{more}. The attackers see compressed columns and ranks"
        )
    if len(people.sensitive.columns) > 1 and joint is None:
        yield (
            "the joint feature was not attacked: fewer than three combinations of the features "
            f"have at least {folds} members"
        )
    if joint is not None and OTHER in joint.categories:
        merged = int((joint.values == len(joint.categories) - 1).sum())
        yield f"{merged} people in small combinations of the features were merged into one group"
    trained = plan.known or len(people) * (plan.folds - 1) // plan.folds
    for name, attacker in attackers.items():
        if attacker.max_people is not None and attacker.max_people < trained:
            yield f"{name} was trained on samples of {attacker.max_people} people"
    if len(people) - plan.known > MOST_TESTED:
        yield f"independence was tested on a random sample of {MOST_TESTED} people"


@dataclass
class _Progress:
    """Counts trials for `on_progress`."""

    report: Callable[[int, int], None] | None
    total: int
    bar: Bar
    done: int = 0

    def advance(self) -> None:
        self.done += 1
        self.bar(self.done, self.total)
        if self.report is not None:
            self.report(self.done, self.total)


def _count_trials(attackers: dict[str, Attacker], columns: list[Column]) -> int:
    return sum(
        len(attacker.inputs)
        for attacker in attackers.values()
        for column in columns
        if attacker.predicts(column.kind)
    )


def _attacker_rows(trials: Trials, column: Column, plan: Plan) -> list[Measure]:
    """Return leakage, then the two scores of every attacker."""
    first, count = trials.answers[0], len(trials.names)
    draws, inflation = (
        draw_people(first.groups, plan.seed),
        inflate(None if plan.known else plan.folds),
    )
    value, low, high = leakage(trials.answers, draws, inflation)
    row = Measure(column.name, "leakage", "leakage", value, low=low, high=high, chance=0.0)
    measures = [replace(row, about="model and sign are chosen")]
    values, lows, highs = simultaneous(trials.answers, draws, inflation)
    categorical = isinstance(first, GroupAnswers)
    chance = first.chance if isinstance(first, GroupAnswers) else 0.0
    names = (ACCURACY,) if categorical else (R_SQUARED, RANK_CORRELATION)
    for i, (model, form) in enumerate(trials.names):
        for k, name in enumerate(names):
            at = k * count + i
            row = Measure(column.name, "attackers", name, float(values[at]), model, form)
            low, high = float(lows[at]), float(highs[at])
            measures.append(replace(row, low=low, high=high, chance=chance))
        if categorical and not np.isnan(trials.areas[i]):
            area = Measure(column.name, "attackers", AUC, trials.areas[i], model, form)
            measures.append(replace(area, chance=0.5))
    return measures
