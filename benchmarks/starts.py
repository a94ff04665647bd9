"""Starts of many people: a fit to a sample alone, and groups moved to one distribution as well.

Run with ``python -m benchmarks.run many_starts``. Adult and OULAD are downloaded, or in the folder
PARAFAIR_DATA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.reference.kinds import draw, equal_moments, mean_shift, profiles

from benchmarks.marks import SETTINGS
from parafair import FairCP, datasets

Row = dict[str, object]
Case = tuple[str, dict[str, Any], Any, NDArray[Any]]
STRENGTH = 300.0


def many_starts() -> Iterable[Row]:
    """Fits at strength 300 with one start and with both, attacked by models that no audit has.

    An AUC of 0.5 is chance. Attackers see everybody's rows, with noise, in four folds.
    """
    for name, settings, data, groups in _cases():
        for starts in ("sample", "both"):
            alone = patch("parafair.solvers.contest_of_many.can_slice", _never)
            with alone if starts == "sample" else nullcontext():
                begin = process_time()
                model = FairCP(strength=STRENGTH, **settings).fit(data, sensitive_features=groups)
                seconds = process_time() - begin
            fit = model.fit_
            yield {
                "data": name,
                "starts": starts,
                "objective": fit.before_noise.objective,
                "residual": fit.residual,
                **_attack(model.embedding_, groups),
                "iterations": fit.n_iter + fit.counts["rough iterations"],
                "CPU seconds": seconds,
            }


def _never(problem: object) -> bool:
    return False


def _cases() -> Iterator[Case]:
    adult = datasets.adult()
    sex = adult.sensitive_features["sex"].to_numpy()
    for seed, people in ((0, 12_000), (7, 6_000), (9, 3_000)):
        chosen = np.random.default_rng(seed).permutation(len(sex))[:people]
        settings = {"rank": 8, "random_state": seed}
        yield f"Adult, {people} people", settings, adult.tensor[chosen], sex[chosen]
    for kind in (mean_shift, equal_moments, profiles):
        tensor, groups, rank = draw(kind, 3, 4000)
        name = kind.__name__.replace("_", " ")
        yield f"{name}, 4000 people", {"rank": rank}, tensor, groups
    oulad = datasets.oulad()
    yield "OULAD, gender", SETTINGS, oulad.tensor, oulad.sensitive_features["gender"].to_numpy()


def _attack(rows: NDArray[Any], groups: NDArray[Any]) -> Row:
    network = MLPClassifier((64, 32), early_stopping=True, random_state=1)
    attackers = {
        "boosting": HistGradientBoostingClassifier(class_weight="balanced", random_state=1),
        "network": make_pipeline(StandardScaler(), network),
        "extra trees": ExtraTreesClassifier(
            100, min_samples_leaf=5, class_weight="balanced", random_state=1
        ),
    }
    target = groups == np.unique(groups)[0]
    found: Row = {}
    for name, attacker in attackers.items():
        guessed = cross_val_predict(attacker, rows, target, cv=4, method="predict_proba")[:, 1]
        found[f"AUC {name}"] = roc_auc_score(target, guessed)
    return found
