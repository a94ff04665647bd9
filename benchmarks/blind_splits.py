"""Encoders on several splits of Adult, with sex and race, and attackers of other making.

Run with ``python -m benchmarks.run adult_splits``. It needs the data, downloaded or in the folder
PARAFAIR_DATA. The fits use none of these attackers, and audits have others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC

from parafair import FairCP, datasets
from parafair.audits.estimators import PriorCorrected

Row = dict[str, object]
Rows = NDArray[Any]
RANK, FITTED, NEW, SPLITS = 8, 6_000, 3_000, 3
MODELS: dict[str, dict[str, Any] | None] = {
    "rows drawn at random": None,
    "plain": {"method": "none"},
    "linear encoder": {"encoder": "linear"},
    "network encoder": {"encoder": "network"},
}
# Processes, with one thread each.
JOBS = int(os.environ.get("PARAFAIR_JOBS", "1"))


def attackers() -> dict[str, Any]:
    """Return classifiers by name; all of them weigh groups alike."""
    return {
        "boosting": HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.05, l2_regularization=1.0, class_weight="balanced",
            random_state=0,
        ),
        "extra trees": ExtraTreesClassifier(
            200, min_samples_leaf=5, class_weight="balanced_subsample", random_state=0
        ),
        "SVM": make_pipeline(
            StandardScaler(), SVC(C=3.0, gamma="scale", class_weight="balanced", cache_size=500)
        ),
        "neighbors of ranks": PriorCorrected(
            make_pipeline(QuantileTransformer(random_state=0), KNeighborsClassifier(60))
        ),
        "quadratic": PriorCorrected(QuadraticDiscriminantAnalysis(reg_param=0.05)),
    }  # fmt: skip


def adult_splits() -> Iterable[Row]:
    """Adult: encoders on 3 splits of 6,000 people to fit and 3,000 new ones, sex and race.

    Columns are the means of the splits and the largest one: what the strongest of five attackers
    learns after training on the fitted people ("leakage"), and on other new people ("within new").
    """
    settings = [(feature, name) for feature in ("sex", "race") for name in MODELS]
    jobs = [(*setting, split) for setting in settings for split in range(SPLITS)]
    found = Parallel(n_jobs=JOBS)(delayed(_one)(*job) for job in jobs)
    for place, (feature, name) in enumerate(settings):
        splits = found[place * SPLITS : (place + 1) * SPLITS]
        row: Row = {"feature": feature, "model": name}
        for measure in ("leakage", "within new"):
            strongest = [max(split[measure].values()) for split in splits]
            row[measure] = float(np.mean(strongest))
            row[f"largest {measure}"] = max(strongest)
        means = {
            attacker: np.mean([split["within new"][attacker] for split in splits])
            for attacker in attackers()
        }
        row["strongest"] = max(means, key=lambda attacker: float(means[attacker]))
        for measure in ("income AUC", "residual"):
            values = [split[measure] for split in splits]
            row[measure] = None if values[0] is None else float(np.mean(values))
        yield row


def _one(feature: str, name: str, split: int) -> dict[str, Any]:
    """Return what every attacker learns on one split, AUC of income and residual."""
    data, settings = datasets.adult(), MODELS[name]
    people = np.random.default_rng(100 + split).permutation(len(data.target))[: FITTED + NEW]
    fitted, new = people[:FITTED], people[FITTED:]
    group = data.sensitive_features[feature].to_numpy()
    if settings is None:
        rows = np.random.default_rng(split).standard_normal((FITTED + NEW, RANK))
        old, rows, residual = rows[:FITTED], rows[FITTED:], None
    else:
        model = FairCP(RANK, random_state=split, **settings)
        model.fit(data.tensor[fitted], sensitive_features=group[fitted])
        old, rows, residual = (
            model.embedding_,
            model.transform(data.tensor[new]),
            model.fit_.residual,
        )
    folds = StratifiedKFold(5, shuffle=True, random_state=split)

    def across(attacker: Any) -> Rows:
        return np.asarray(clone(attacker).fit(old, group[fitted]).predict(rows))

    def within(attacker: Any) -> Rows:
        return np.asarray(cross_val_predict(attacker, rows, group[new], cv=folds))

    rich = (data.target == ">50K").to_numpy()
    income = HistGradientBoostingClassifier(random_state=0).fit(old, rich[fitted])
    return {
        "leakage": _advantages(across, group[new]),
        "within new": _advantages(within, group[new]),
        "income AUC": float(roc_auc_score(rich[new], income.predict_proba(rows)[:, 1])),
        "residual": residual,
    }


def _advantages(answer: Callable[[Any], Rows], groups: Rows) -> dict[str, float]:
    """Return the balanced accuracy of every attacker, above chance."""
    chance = 1 / len(np.unique(groups))
    return {
        name: float(recall_score(groups, answer(attacker), average="macro")) - chance
        for name, attacker in attackers().items()
    }
