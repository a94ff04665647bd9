"""Attackers of rows of new people that no fit and no audit uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC

from parafair.audits.estimators import PriorCorrected

# People that an attacker is trained on, at most.
MOST_TRAINED = 6_000

Answers = dict[str, NDArray[Any]]


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


def guess(old: NDArray[Any], groups: NDArray[Any], new: NDArray[Any]) -> Answers:
    """Return what attackers answer who know the groups of the fitted people."""
    some = np.random.default_rng(0).permutation(len(old))[:MOST_TRAINED]
    return {
        name: clone(attacker).fit(old[some], groups[some]).predict(new)
        for name, attacker in attackers().items()
    }


def guess_others(new: NDArray[Any], groups: NDArray[Any]) -> Answers:
    """Return what attackers answer who know the groups of other new people."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return {
        name: cross_val_predict(attacker, new, groups, cv=folds)
        for name, attacker in attackers().items()
    }


def strongest(answers: Answers, groups: NDArray[Any]) -> tuple[float, str]:
    """Return the largest balanced accuracy above chance, and the name of its attacker."""
    chance = 1 / len(np.unique(groups))
    return max(
        (float(recall_score(groups, guessed, average="macro")) - chance, name)
        for name, guessed in answers.items()
    )
