"""Trials of attackers: trained on some people, tested on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone

from parafair.audits.answers import Answers, GroupAnswers, NumberAnswers
from parafair.audits.attacker import Attacker
from parafair.audits.inputs import InputColumns
from parafair.audits.together import fit_all, trains_together
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.threads import one_thread

# Models of the inner cross-validation are trained on at most this many people.
MOST_INNER = 1000


@dataclass(frozen=True)
class Plan:
    """Who is trained on and who is tested.

    Attributes:
        folds: Number of folds of a cross-validation.
        repeats: Number of cross-validations, each with other folds.
        n_jobs: Number of processes; None is one, or the setting of `joblib.parallel_config`.
        precision: Relative rounding error of the embedding.
        seed: Seed of the folds and of the attackers.
        known: If not 0, attackers are trained on this many people and tested on those after them;
            the folds are of the known people, and serve the inner cross-validation alone.
    """

    folds: int
    repeats: int
    n_jobs: int | None
    precision: float
    seed: int
    known: int = 0

    @property
    def tested(self) -> tuple[int, ...]:
        """The folds whose people are tested; new people are a fold of their own, the last."""
        return (self.folds,) if self.known else tuple(range(self.folds))

    def numbers(self, column: Column) -> list[NDArray[np.intp]]:
        """Return the fold of each person, shape (n,), in every repeat."""
        random, found = np.random.RandomState(self.seed), []
        n = len(column.values)
        for _ in range(self.repeats):
            number = np.full(n, self.folds)
            known = np.arange(self.known or n)
            number[known] = _deal(column.take(known), self.folds, random)
            found.append(number)
        return found

    def excluded(self, column: Column, number: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the folds that a model is trained without, for every model.

        First one tested fold each, then pairs for the inner cross-validation. The pairs are left
        out if a training set would lack a group.
        """
        outer: list[tuple[int, ...]] = [(fold,) for fold in self.tested]
        pairs = [tuple(sorted(p)) for p in combinations(range(max(self.tested) + 1), 2)]
        pairs = [pair for pair in pairs if set(pair) & set(self.tested)]
        groups = column.values if column.kind == "categorical" else np.zeros_like(number)
        codes = np.unique(groups)
        for pair in pairs:
            trained = ~np.isin(number, pair)
            if trained.sum() < 2 or not np.isin(codes, groups[trained]).all():
                return outer
        return outer + pairs


@dataclass(frozen=True, eq=False)
class Trials:
    """What all attackers answered about one feature.

    Attributes:
        names: The attacker and the input of each trial.
        answers: The answers in every repeat.
        areas: The AUC of each trial of a categorical feature; NaN if undefined.
    """

    names: tuple[tuple[str, str], ...]
    answers: tuple[Answers, ...]
    areas: tuple[float, ...]


def try_attackers(
    rows: NDArray[np.float64],
    column: Column,
    attackers: dict[str, Attacker],
    plan: Plan,
    on_trial: Callable[[], None],
) -> Trials:
    """Try all attackers that can predict this kind of feature, on all inputs."""
    repeats = [(number, plan.excluded(column, number)) for number in plan.numbers(column)]
    models = [_Model(number, without) for number, every in repeats for without in every]
    able = [name for name, attacker in attackers.items() if attacker.predicts(column.kind)]
    names = [(name, form) for name in able for form in attackers[name].inputs]
    seeded = [(model, seed) for seed, model in enumerate(models, start=plan.seed)]
    jobs = (
        delayed(_predict)(
            InputColumns(form, precision=plan.precision), name, attackers[name], rows, column, lot
        )
        for name, form in names
        for lot in _lots(attackers[name], column, seeded)
    )
    kept, areas = [], []
    with one_thread():
        results = chain.from_iterable(Parallel(n_jobs=plan.n_jobs, return_as="generator")(jobs))
        for _ in names:
            found = list(islice(results, len(models)))
            kept.append([_pool(column, plan, models, found, number) for number, _ in repeats])
            areas.append(_mean_auc(column, models, found))
            on_trial()
    answers = [
        _answers(column, plan, repeats[r][0], [k[r] for k in kept]) for r in range(len(repeats))
    ]
    return Trials(tuple(names), tuple(answers), tuple(areas))


class _Model(NamedTuple):
    """One model: the fold of each person, shape (n,), and the folds it is trained without."""

    number: NDArray[np.intp]
    without: tuple[int, ...]

    @property
    def inner(self) -> bool:
        """Whether it serves the inner cross-validation."""
        return len(self.without) > 1

    @property
    def train(self) -> NDArray[np.intp]:
        return np.flatnonzero(~np.isin(self.number, self.without))

    @property
    def test(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isin(self.number, self.without))


class _Predictions(NamedTuple):
    """Predicted codes or numbers, shape (n,), and scores, shape (n, groups).

    Only an outer classifier has scores.
    """

    answers: NDArray[Any]
    scores: NDArray[Any] | None


def predict_all(
    rows: NDArray[np.float64], column: Column, attacker: Attacker, plan: Plan
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return one prediction per person, shape (n,), and its scores, shape (n, scores)."""
    (number,) = replace(plan, repeats=1).numbers(column)
    models = [_Model(number, (fold,)) for fold in plan.tested]
    columns = InputColumns(precision=plan.precision)
    lot = [(model, plan.seed) for model in models]
    predictions = _predict(columns, "the predictor", attacker, rows, column, lot)
    order = np.argsort(np.concatenate([model.test for model in models]))
    answers = np.concatenate([one.answers for one in predictions])[order]
    if column.kind == "numeric":
        return answers, answers[:, None]
    return answers, np.concatenate([one.scores for one in predictions])[order]


def _deal(column: Column, folds: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Return the fold of each person, shape (n,), with all groups spread evenly."""
    if column.kind == "numeric":
        return np.asarray(random.permutation(len(column.values)) % folds)
    return _stratify(column.values, folds, random)


def _stratify(
    groups: NDArray[np.intp], folds: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Return the fold of each person, with each group spread evenly over the folds.

    The folds are those of scikit-learn's `StratifiedKFold`, which warns if a group has fewer
    members than there are folds. Here this is intended: scores pool all people, so a fold may lack
    a group.
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    codes = first.argsort().argsort()[codes]  # groups in the order of their first members
    ordered = np.sort(codes)
    found = np.empty(len(codes), np.intp)
    for group in range(len(first)):
        members = [np.count_nonzero(ordered[fold::folds] == group) for fold in range(folds)]
        numbers = np.arange(folds).repeat(members)
        random.shuffle(numbers)
        found[codes == group] = numbers
    return found


def _lots(
    attacker: Attacker, column: Column, seeded: list[tuple[_Model, int]]
) -> list[list[tuple[_Model, int]]]:
    """Return the models and seeds of each job: all, if they are trained together, or one each."""
    if trains_together(attacker.make(column.kind, 0)):
        return [seeded]
    return [[one] for one in seeded]


def _predict(
    columns: InputColumns,
    name: str,
    attacker: Attacker,
    rows: NDArray[np.float64],
    column: Column,
    lot: list[tuple[_Model, int]],
) -> list[_Predictions]:
    """Train models of one attacker, and predict the feature of the people each has not seen."""
    with one_thread():
        inputs, sets = [], []
        for trial, seed in lot:
            train = _training_people(attacker, column, trial, seed)
            inputs.append(clone(columns).fit(rows[train]))
            sets.append((inputs[-1].transform(rows[train]), column.values[train]))
        models = [attacker.make(column.kind, seed) for _, seed in lot]
        fit_all(models, sets)
        found = [
            _ask(model, own.transform(rows[trial.test]), column, trial)
            for model, own, (trial, _) in zip(models, inputs, lot, strict=True)
        ]
    if column.kind == "numeric" and not all(np.isfinite(one.answers).all() for one in found):
        raise ValueError(
            f"attackers: {name!r} predicted NaN or infinite numbers for sensitive feature "
            f"{column.name!r}, but an audit needs finite ones; correct it or leave it out"
        )
    return found


def _training_people(
    attacker: Attacker, column: Column, trial: _Model, seed: int
) -> NDArray[np.intp]:
    """Return the people that a model is trained on, at most as many as the attacker takes."""
    train = trial.train
    most = attacker.max_people or len(train)
    if trial.inner:
        most = min(most, MOST_INNER)
    if len(train) > most:
        known = SensitiveFeatures((column.take(train),))
        train = train[known.sample(most, np.random.RandomState(seed))]
    return train


def _ask(model: Any, rows: NDArray[np.float64], column: Column, trial: _Model) -> _Predictions:
    """Return what a trained model predicts about rows."""
    # Scores are for the AUC, which is that of the outer models.
    scored = column.kind == "categorical" and not trial.inner
    scores = _class_scores(model, rows, len(column.categories)) if scored else None
    return _Predictions(model.predict(rows), scores)


def _class_scores(model: Any, rows: NDArray[np.float64], groups: int) -> NDArray[Any] | None:
    """Return a score per group, shape (n, groups), or None if the model has none."""
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)
    elif hasattr(model, "decision_function"):
        found = model.decision_function(rows)
        found = np.column_stack([-found, found]) if found.ndim == 1 else found
    else:
        return None
    scores = np.full((len(rows), groups), -np.inf)
    scores[:, model.classes_] = found
    return scores


def _pool(
    column: Column,
    plan: Plan,
    models: list[_Model],
    predictions: list[_Predictions],
    number: NDArray[np.intp],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what is kept about each person in one repeat, by outer and by inner models.

    The shapes are (n, kept) and (tested folds, n, kept). Without inner models, the outer ones
    take their place.
    """
    size = 1 if column.kind == "categorical" else 3
    outer = np.zeros((len(number), size))
    inner = np.full((len(plan.tested), len(number), size), np.nan)
    for model, found in zip(models, predictions, strict=True):
        if model.number is not number:
            continue
        for fold in model.without:
            own = number[model.test] == fold
            people = model.test[own]
            kept = _keep(column, column.values[people], found.answers[own])
            others = set(model.without) - {fold}
            if not others:
                outer[people] = kept
            for other in others & set(plan.tested):
                inner[plan.tested.index(other), people] = kept
    return outer, np.where(np.isnan(inner), outer, inner)


def _keep(column: Column, truth: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.float64]:
    """Return what is kept about the people of one fold, shape (n, kept); see `Answers`."""
    if column.kind == "categorical":
        return np.asarray(predicted != truth, dtype=np.float64)[:, None]
    ranks = (rankdata(predicted) - 0.5) / max(1, len(truth)) - 0.5
    return np.column_stack([(predicted - truth) ** 2, predicted - predicted.mean(), ranks])


def _answers(
    column: Column,
    plan: Plan,
    number: NDArray[np.intp],
    kept: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> Answers:
    """Return the answers of all attackers in one repeat."""
    outer, inner = (np.stack(part, -2) for part in zip(*kept, strict=True))
    if column.kind == "categorical":
        return GroupAnswers(number, plan.tested, outer, inner, column.values)
    return NumberAnswers(number, plan.tested, outer, inner, column.values)


def _mean_auc(column: Column, models: list[_Model], predictions: list[_Predictions]) -> float:
    """Return the AUC, averaged over groups and folds, whose scores are not comparable."""
    found = [
        auc(column.values[model.test] == group, scores[:, group])
        for model, (_, scores) in zip(models, predictions, strict=True)
        if scores is not None
        for group in np.unique(column.values[model.test])
        if not (column.values[model.test] == group).all()
    ]
    return float(np.mean(found)) if found else float("nan")


def auc(members: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Return the probability that a member has a higher score than a non-member; ties count half.

    The rank sum of Mann and Whitney, 20 times as fast as scikit-learn's for 1000 people.
    """
    inside = int(members.sum())
    above = rankdata(scores)[members].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (len(members) - inside)))
