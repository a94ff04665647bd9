"""The audit: checks, sampling, cross-validation of the attackers, and the rows of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.audits.attacker import Attacker
from parafair.audits.attackers import ATTACKERS, resolve_attackers
from parafair.audits.dependence import MOST_TESTED, dependence_rows, paper_rows
from parafair.audits.features import OTHER, check_groups, join, sample
from parafair.audits.inputs import INPUTS
from parafair.audits.intervals import draw_people, simultaneous, strongest
from parafair.audits.measures import pair
from parafair.audits.predictions import (
    group_rows,
    overall_rows,
    predict_target,
    read_target,
)
from parafair.audits.result import ACCURACY, AUC, R_SQUARED, RANK_CORRELATION, Audit, Measure
from parafair.audits.trials import CrossValidation, Trials, try_attackers
from parafair.data.column import Column
from parafair.data.randomness import RandomState, as_random
from parafair.data.sensitive import SensitiveFeatures


def audit(  # noqa: PLR0913  (each argument is a setting of its own)
    embedding: Any,
    *,
    sensitive_features: Any,
    target: Any = None,
    attackers: Iterable[str] | Mapping[str, Any] | None = None,
    folds: int = 5,
    repeats: int = 2,
    permutations: int = 200,
    max_people: int = 5000,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Measure how much an embedding reveals about each sensitive feature, and about all jointly.

    Attackers predict a feature from standardized and from whitened columns, so neither scale nor
    correlation can hide it. They are cross-validated: balanced accuracy and AUC for a category,
    R squared and rank correlation for a number. The 95 % intervals are simultaneous over all
    attackers of a feature. A permutation test and the paper's measures, which depend on the
    scale of the columns, are reported too.

    Args:
        embedding: One row per person, shape (n, rank).
        sensitive_features: One row per person: array, Series, DataFrame or `SensitiveFeatures`.
        target: A downstream target, one value per person. Models are trained to predict it, and
            their cross-validated predictions are compared between groups; needs fairlearn.
        attackers: Names of registered attackers, see `parafair.audits.ATTACKERS`;
            or a dictionary from a name to a scikit-learn estimator or an `Attacker`.
            By default all registered attackers.
        folds: Number of folds of the cross-validation.
        repeats: Number of cross-validations, each with other folds.
        permutations: Number of permutations of the independence test.
        max_people: Larger data is sampled down to this many people, some of every group.
        n_jobs: Number of processes; None is one, or the setting of `joblib.parallel_config`;
            -1 is all processors. Results do not depend on it.
        random_state: Seed of the sample, the folds, the attackers and the permutations.
        on_progress: Called after each trial with the number of trials done and their total.
    """
    rows, sensitive = pair(embedding, sensitive_features)
    chosen = check_settings(
        sensitive, attackers=attackers, folds=folds, repeats=repeats, permutations=permutations,
        max_people=max_people,
    )  # fmt: skip
    wanted = None if target is None else read_target(target, len(rows))
    random = as_random(random_state)
    people = sample(sensitive, max_people, random)
    plan = CrossValidation(
        folds, repeats, n_jobs, _precision(embedding), int(random.randint(2**31))
    )
    columns, joint = _features(sensitive, people, folds)
    _check_kinds(chosen, columns)
    progress = _Progress(on_progress, _count_trials(chosen, columns))
    table, measures = rows.numpy()[people], []
    predicted = [] if wanted is None else predict_target(table, wanted.take(people), plan)
    for column in columns:
        trials = try_attackers(table, column, chosen, plan, progress.advance)
        measures += _attacker_rows(trials, column, plan.seed)
        measures += dependence_rows(table, column, permutations=permutations, seed=plan.seed)
        measures += group_rows(predicted, column)
        if column is not joint:
            measures += paper_rows(table, column, seed=plan.seed)
    measures += overall_rows(predicted)
    remarks = _remarks(sensitive, joint, chosen, len(people), folds)
    return Audit(tuple(measures), len(people), len(rows), remarks)


# What help(audit) shows is what is registered.
audit.__doc__ = (audit.__doc__ or "").replace(
    "see `parafair.audits.ATTACKERS`", "some of " + ", ".join(f'"{name}"' for name in ATTACKERS)
)


def check_settings(
    sensitive: SensitiveFeatures,
    *,
    attackers: Iterable[str] | Mapping[str, Any] | None = None,
    folds: int = 5,
    repeats: int = 2,
    permutations: int = 200,
    max_people: int = 5000,
) -> dict[str, Attacker]:
    """Return the attackers; raise if an audit with these settings would fail."""
    _check_counts(folds=folds, repeats=repeats, permutations=permutations)
    _check_people(len(sensitive), max_people, folds)
    check_groups(sensitive, folds)
    return resolve_attackers(attackers)


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        least = 2 if name == "folds" else 1
        if value != int(value) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _check_people(people: int, max_people: int, folds: int) -> None:
    least = max(folds, 4)
    if people < least:
        raise ValueError(
            f"embedding has {people} rows, but an audit with folds={folds} needs at least "
            f"{least}; pass more people or fewer folds"
        )
    if max_people < least:
        raise ValueError(
            f"max_people must be at least {least} in an audit with folds={folds}, got {max_people}"
        )


def _check_kinds(attackers: dict[str, Attacker], columns: list[Column]) -> None:
    """Refuse features that no attacker can predict."""
    for column in columns:
        if not any(attacker.predicts(column.kind) for attacker in attackers.values()):
            model = "classifier" if column.kind == "categorical" else "regressor"
            raise ValueError(
                f"attackers has no {model}, but sensitive feature {column.name!r} is "
                f"{column.kind}; add a scikit-learn {model}"
            )


def _precision(embedding: Any) -> float:
    """Return the relative rounding error of the embedding's own numbers."""
    single = any(name in str(getattr(embedding, "dtype", "")) for name in ("float32", "float16"))
    return 2.0**-23 if single else 2.0**-52


def _features(
    sensitive: SensitiveFeatures, people: NDArray[Any], folds: int
) -> tuple[list[Column], Column | None]:
    """Return the features of the audited people, including the joint feature, and the latter."""
    columns = [column.take(people) for column in sensitive.columns]
    joint = join(SensitiveFeatures(tuple(columns)), folds)
    return columns + ([] if joint is None else [joint]), joint


def _remarks(
    sensitive: SensitiveFeatures,
    joint: Column | None,
    attackers: dict[str, Attacker],
    people: int,
    folds: int,
) -> tuple[str, ...]:
    """Return sentences about what was left out or done differently."""
    remarks = []
    if len(sensitive.columns) > 1 and joint is None:
        remarks.append(
            "the joint feature was not attacked: fewer than three combinations of the features "
            f"have at least {folds} members"
        )
    if joint is not None and OTHER in joint.categories:
        merged = int((joint.values == len(joint.categories) - 1).sum())
        remarks.append(
            f"{merged} people in small combinations of the features were merged into one group"
        )
    trained = people * (folds - 1) // folds
    for name, attacker in attackers.items():
        if attacker.max_people is not None and attacker.max_people < trained:
            remarks.append(f"{name} was trained on samples of {attacker.max_people} people")
    if people > MOST_TESTED:
        remarks.append(f"independence was tested on a random sample of {MOST_TESTED} people")
    return tuple(remarks)


@dataclass
class _Progress:
    """Counts trials for `on_progress`."""

    report: Callable[[int, int], None] | None
    total: int
    done: int = 0

    def advance(self) -> None:
        self.done += 1
        if self.report is not None:
            self.report(self.done, self.total)


def _count_trials(attackers: dict[str, Attacker], columns: list[Column]) -> int:
    fit = sum(a.predicts(c.kind) for a in attackers.values() for c in columns)
    return fit * len(INPUTS)


def _attacker_rows(trials: Trials, column: Column, seed: int) -> list[Measure]:
    """Return leakage, then the two scores of every attacker, the first with its interval."""
    draws = draw_people(trials.table.groups, seed)
    value, low, high = strongest(trials.table, draws)
    leakage = Measure(column.name, "leakage", "leakage", value, low=low, high=high, chance=0.0)
    measures = [replace(leakage, about="strongest attacker above chance")]
    categorical = column.kind == "categorical"
    score, ranking = (ACCURACY, AUC) if categorical else (R_SQUARED, RANK_CORRELATION)
    values, (lows, highs) = trials.table.values, simultaneous(trials.table, draws)
    for i, (model, form) in enumerate(trials.names):
        row = Measure(column.name, "attackers", score, float(values[i]), model, form)
        low, high = float(lows[i]), float(highs[i])
        measures.append(replace(row, low=low, high=high, chance=trials.table.chance))
        if not np.isnan(trials.rankings[i]):
            chance = 0.5 if categorical else 0.0
            measures.append(replace(row, measure=ranking, value=trials.rankings[i], chance=chance))
    return measures
