"""Encoders on several splits of Adult, with sex and race, and attackers of other making.

Run with ``python -m benchmarks.run adult_splits``. It needs the data, downloaded or in the folder
PARAFAIR_DATA. The fits use none of these attackers, and audits have others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC

from benchmarks.parts import part
from parafair import FairCP, datasets
from parafair.audits.estimators import PriorCorrected
from parafair.encoders import Learned

Row = dict[str, object]
Rows = NDArray[Any]
RANK = 8
# Of each feature: how many people are fitted, how many are new, and the number of splits. Rare
# groups need larger batches, which take much longer.
SIZES = {"sex": (12_000, 6_000, 3), "race": (6_000, 3_000, 2)}
# People that an attacker is trained on, at most.
MOST_TRAINED = 6_000
# Arguments of the model, and whether `transform` is told the group of new people.
MODELS: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "rows drawn at random": (None, False),
    "plain": ({"method": "none"}, False),
    "sliced-transport": ({"method": "sliced-transport"}, True),
    "network encoder": ({"encoder": "network"}, False),
    "network encoder, 1800 steps": ({"encoder": Learned(steps=1800)}, False),
}
MEASURES = ("leakage", "within new")
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
    """Adult: several splits, of 12,000 people to fit and 6,000 new ones for sex, half for race.

    Columns are the means of the splits and the largest one: what the strongest of five attackers
    learns after training on the fitted people ("leakage"), and on other new people ("within new").
    """
    jobs = [
        (feature, name, split)
        for feature, (_, _, splits) in SIZES.items()
        for name in MODELS
        for split in range(splits)
        if feature == "sex" or "steps" not in name
    ]
    found = Parallel(n_jobs=JOBS)(delayed(part)(one_split, *job) for job in jobs)
    for feature, name in dict.fromkeys(job[:2] for job in jobs):
        splits = [row for job, row in zip(jobs, found, strict=True) if job[:2] == (feature, name)]
        row: Row = {"feature": feature, "model": name, "splits": len(splits)}
        for measure in MEASURES:
            strongest = [max(split[measure].values()) for split in splits]
            row[measure] = float(np.mean(strongest))
            row[f"largest {measure}"] = max(strongest)
        means = {
            attacker: np.mean([split["within new"][attacker] for split in splits])
            for attacker in attackers()
        }
        row["strongest"] = max(means, key=lambda attacker: float(means[attacker]))
        for measure in ("income AUC", "residual", "fit, CPU s"):
            values = [split[measure] for split in splits]
            row[measure] = None if values[0] is None else float(np.mean(values))
        yield row


def adult_limit() -> Iterable[Row]:
    """Adult: AUC of an income score with the same distribution for women and men, by split.

    A boosted tree that is told the sex scores new people, and each one gets the rank within the own
    sex. Its inputs are rows of a plain decomposition of rank 8, or all 80 columns.
    """
    count, more, splits = SIZES["sex"]
    data = datasets.adult()
    sex = (data.sensitive_features["sex"] == "Female").to_numpy()
    rich = (data.target == ">50K").to_numpy()
    for split in range(splits):
        people = np.random.default_rng(100 + split).permutation(len(rich))[: count + more]
        fitted, new = people[:count], people[count:]
        model = FairCP(RANK, method="none", random_state=split).fit(data.tensor[fitted])
        for inputs, old, rows in (
            ("plain rows", model.embedding_, model.transform(data.tensor[new])),
            ("all columns", data.tensor[fitted], data.tensor[new]),
        ):
            trees = HistGradientBoostingClassifier(random_state=0)
            trees.fit(np.column_stack([old, sex[fitted]]), rich[fitted])
            scores = trees.predict_proba(np.column_stack([rows, sex[new]]))[:, 1]
            ranks = np.empty(len(new))
            for own in (sex[new], ~sex[new]):
                ranks[own] = rankdata(scores[own]) / own.sum()
            yield {
                "split": split,
                "inputs": inputs,
                "AUC": float(roc_auc_score(rich[new], scores)),
                "AUC of ranks within a sex": float(roc_auc_score(rich[new], ranks)),
            }


def one_split(feature: str, name: str, split: int) -> dict[str, Any]:
    """Return what every attacker learns on one split, AUC of income, residual and seconds."""
    data, (settings, known) = datasets.adult(), MODELS[name]
    count, more, _ = SIZES[feature]
    people = np.random.default_rng(100 + split).permutation(len(data.target))[: count + more]
    fitted, new = people[:count], people[count:]
    group = data.sensitive_features[feature].to_numpy()
    residual = seconds = None
    if settings is None:
        rows = np.random.default_rng(split).standard_normal((len(people), RANK))
        old, rows = rows[:count], rows[count:]
    else:
        begin = process_time()
        model = FairCP(RANK, random_state=split, **settings)
        model.fit(data.tensor[fitted], sensitive_features=group[fitted])
        residual, seconds = model.fit_.residual, process_time() - begin
        old = model.embedding_
        told = {"sensitive_features": group[new]} if known else {}
        rows = model.transform(data.tensor[new], **told)
    folds = StratifiedKFold(5, shuffle=True, random_state=split)

    def across(attacker: Any) -> Rows:
        own = clone(attacker).fit(old[:MOST_TRAINED], group[fitted][:MOST_TRAINED])
        return np.asarray(own.predict(rows))

    def within(attacker: Any) -> Rows:
        return np.asarray(cross_val_predict(attacker, rows, group[new], cv=folds))

    rich = (data.target == ">50K").to_numpy()
    income = HistGradientBoostingClassifier(random_state=0).fit(old, rich[fitted])
    return {
        "leakage": _advantages(across, group[new]),
        "within new": _advantages(within, group[new]),
        "income AUC": float(roc_auc_score(rich[new], income.predict_proba(rows)[:, 1])),
        "residual": residual,
        "fit, CPU s": seconds,
    }


def _advantages(answer: Callable[[Any], Rows], groups: Rows) -> dict[str, float]:
    """Return the balanced accuracy of every attacker, above chance."""
    chance = 1 / len(np.unique(groups))
    return {
        name: float(recall_score(groups, answer(attacker), average="macro")) - chance
        for name, attacker in attackers().items()
    }
