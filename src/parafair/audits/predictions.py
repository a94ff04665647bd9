"""Downstream predictions of a target from the embedding, compared between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import mean_squared_error, r2_score, zero_one_loss

from parafair.audits.attacker import Attacker
from parafair.audits.evaluation import ks_statistic
from parafair.audits.measures import LARGEST
from parafair.audits.result import R_SQUARED, Measure
from parafair.audits.trials import Plan, predict_all
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

# Groups that a numeric sensitive feature is binned into.
BINS = 4

# Unlike attackers, predictors do not weight classes equally.
PREDICTORS = {
    "linear": Attacker(
        lambda seed: LogisticRegression(max_iter=2000),
        lambda seed: RidgeCV(np.logspace(-2, 4, 7)),
    ),
    "boosting": Attacker(
        lambda seed: HistGradientBoostingClassifier(
            max_iter=60, min_samples_leaf=5, random_state=seed
        ),
        lambda seed: HistGradientBoostingRegressor(
            max_iter=60, min_samples_leaf=5, random_state=seed
        ),
    ),
}


@dataclass(frozen=True, eq=False)
class Predicted:
    """The cross-validated predictions of one model for all people.

    Attributes:
        model: The name of the model.
        target: The true values.
        answers: Predicted codes of the categories, or numbers; shape (n,).
        scores: Probabilities, one column per category (one column for two categories), or the
            predicted numbers; shape (n, scores).
    """

    model: str
    target: Column
    answers: NDArray[Any]
    scores: NDArray[np.float64]

    def decisions(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Return truth and prediction as booleans: for each category, or above the median."""
        if self.target.kind == "numeric":
            truth = self.target.values > np.median(self.target.values)
            return [(truth, self.answers > np.median(self.answers))]
        codes = range(len(self.target.categories))
        # With two categories, the first decision is the negation of the second.
        return [(self.target.values == c, self.answers == c) for c in codes[len(codes) == 2 :]]


def _load_fairlearn() -> Any:
    """Return fairlearn's metrics."""
    try:
        from fairlearn import metrics
    except ImportError as error:
        raise ImportError(
            "target needs fairlearn, which is not installed; "
            "install it with: pip install 'parafair[fairlearn]', or leave target out"
        ) from error
    return metrics


def read_target(target: Any, people: int) -> Column:
    """Return the checked target; its kind is inferred as for sensitive features."""
    _load_fairlearn()
    named = not isinstance(target, SensitiveFeatures) and getattr(target, "name", None) is None
    try:
        read = SensitiveFeatures.of(target, names=["target"] if named else None)
    except ValueError as error:
        raise ValueError(f"target cannot be used: {error}") from error
    columns = read.columns
    if len(columns) != 1 or len(columns[0].values) != people:
        raise ValueError(
            f"target must hold one value for each of the {people} people, got {len(columns)} "
            f"columns of {len(columns[0].values)}; pass one column, in the order of the embedding"
        )
    if read.has_features is not None and not read.has_features.all():
        raise ValueError(
            f"target has no value for {(~read.has_features).sum()} of the {people} people, but "
            "needs one for each; fill them, or leave these people out of the audit"
        )
    (column,) = columns
    if column.kind == "categorical" and np.bincount(column.values).min() < 2:
        rare = column.categories[int(np.bincount(column.values).argmin())]
        raise ValueError(
            f"class {rare!r} of target has only one member, so no model can be tested on it; "
            "merge it with another class"
        )
    if column.kind == "numeric" and np.abs(column.values).max() > LARGEST:
        raise ValueError(
            f"target has numbers whose squares overflow, up to {np.abs(column.values).max():.2g}; "
            "rescale it"
        )
    return column


def predict_target(rows: NDArray[np.float64], target: Column, plan: Plan) -> list[Predicted]:
    """Cross-validate every predictor of the target, on standardized columns."""
    found = []
    size = _size(target.values) if target.kind == "numeric" else 1.0
    in_size = replace(target, values=target.values / size) if size != 1 else target
    for name, predictor in PREDICTORS.items():
        answers, scores = predict_all(rows, in_size, predictor, plan)
        if size != 1:
            answers, scores = answers * size, scores * size
        if target.kind == "categorical" and len(target.categories) == 2:
            scores = scores[:, 1:]
        found.append(Predicted(name, target, answers, scores))
    return found


def overall_rows(predicted: list[Predicted]) -> list[Measure]:
    """Return the accuracy or R squared of every model."""
    measures = []
    for one in predicted:
        truth = one.target.values
        if one.target.kind == "numeric":
            size = _size(truth)
            value = float(r2_score(truth / size, one.answers / size))
            measure, chance = R_SQUARED, 0.0
        else:
            measure, value = "accuracy", float((one.answers == truth).mean())
            chance = float(np.bincount(truth).max() / len(truth))
        row = Measure(one.target.name, "predictions", measure, value, one.model, chance=chance)
        measures.append(replace(row, about=f"chance {chance:.3f}"))
    return measures


def _size(numbers: NDArray[np.float64]) -> float:
    """Return a unit in which no square is too small or too large; a power of 2 rounds nothing."""
    largest = float(np.abs(numbers).max())
    return 2.0 ** frexp(largest)[1] if largest else 1.0


def group_rows(predicted: list[Predicted], column: Column) -> list[Measure]:
    """Compare the predictions between the groups of one sensitive feature."""
    groups = column.bin(BINS)
    labels = np.array(groups.categories)[groups.values]
    measures = []
    for one in predicted:
        for measure, value, about in [
            *_differences(one, labels),
            *_errors(one, labels, groups.categories),
        ]:
            measures.append(
                Measure(column.name, "predictions", measure, value, model=one.model, about=about)
            )
    return measures


def _differences(one: Predicted, labels: NDArray[Any]) -> list[tuple[str, float, str]]:
    """Return the largest differences between groups, over all categories of the target."""
    fairlearn = _load_fairlearn()
    parity, odds = [], []
    for truth, answer in one.decisions():
        parity.append(
            fairlearn.demographic_parity_difference(truth, answer, sensitive_features=labels)
        )
        odds.append(fairlearn.equalized_odds_difference(truth, answer, sensitive_features=labels))
    members = [one.scores[labels == label] for label in np.unique(labels)]
    means = np.array([scores.mean(0) for scores in members])
    # Numbers in units of the target's standard deviation; probabilities as they are.
    unit = 1.0
    if one.target.kind == "numeric":
        size = _size(one.target.values)
        unit = (one.target.values / size).std() * size
    distances = [
        ks_statistic(first[:, k], second[:, k])
        for first, second in combinations(members, 2)
        for k in range(one.scores.shape[1])
    ]
    numeric = one.target.kind == "numeric"
    return [
        (
            "demographic parity difference",
            float(max(parity)),
            "of the upper half" if numeric else "of predictions",
        ),
        (
            "mean score difference",
            float(np.ptp(means, axis=0).max() / unit),
            "in standard deviations" if numeric else "of probabilities",
        ),
        ("equalized odds difference", float(max(odds)), ""),
        ("score distance (KS)", float(max(distances)), "largest pair of groups"),
    ]


def _errors(
    one: Predicted, labels: NDArray[Any], groups: Sequence[str]
) -> list[tuple[str, float, str]]:
    """Return the error in each group: the share of wrong answers, or the mean squared error."""
    numeric = one.target.kind == "numeric"
    metric, about = (mean_squared_error, "mean squared") if numeric else (zero_one_loss, "")
    frame = _load_fairlearn().MetricFrame(
        metrics=metric, y_true=one.target.values, y_pred=one.answers, sensitive_features=labels
    )
    return [(f"error of {group}", float(frame.by_group[group]), about) for group in groups]
