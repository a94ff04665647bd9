"""Fair recommenders: what each method costs, and what attackers still learn about the users.

Run with ``python -m benchmarks.run recommend``. Generated ratings need nothing; MovieLens is read
from the reader's own copy in the folder PARAFAIR_DATA, and skipped without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.recommend_attackers import theirs
from benchmarks.recommend_contenders import CONTENDERS, Result, Task
from parafair import FairCP, TensorData, audit, datasets, evaluate_rankings, split_by_time, tune
from parafair.datasets import Dataset
from parafair.errors import ParafairWarning

Row = dict[str, object]

RANK, K, RELEVANT, NEGATIVES, BOOTSTRAPS = 5, 10, 4.0, 100, 1000
# A linear attacker, a smooth one, trees and neighbors; all of the library take four times as long.
ATTACKERS = ("linear", "svm", "boosting", "neighbors")
DATA: dict[str, Callable[[], Dataset]] = {
    "generated": lambda: datasets.ratings(users=300, items=250),
    "MovieLens 100k": lambda: datasets.movielens(size="100k"),
    "MovieLens 1m": lambda: datasets.movielens(size="1m"),
}


def recommend() -> Iterable[Row]:
    """Ten methods on ratings, gender as the sensitive feature: utility, parity and attackers.

    Each user's ratings are split by time, 70 % to fit, 10 % to choose the ridge of the plain
    decomposition, which all methods use, and 20 % for the test. Ratings of 4 and 5 are relevant.
    Lists rank all items without those rated before, or 100 random others with the relevant ones.
    Gaps are women's and men's difference, with 95 % intervals from a bootstrap of the users.
    "leakage" is that of parafair's audit with four attackers. The numbers after it are scores of
    attackers of publications, chance 0.5. Boosted trees are scikit-learn's, in place of XGBoost.
    """
    row: Row = {}
    for name, load in DATA.items():
        try:
            data = load()
        except FileNotFoundError as error:
            reason = str(error).partition(";")[0]
            yield {**dict.fromkeys(row), "data": name, "contender": "all", "skipped": reason}
            continue
        parts = split_by_time(data.tensor, data.times, test_size=0.2, validation_size=0.1)
        groups = (data.sensitive_features["gender"] == "M").to_numpy().astype(int)
        with warnings.catch_warnings():
            # Items that appear late have no training entries.
            warnings.simplefilter("ignore", ParafairWarning)
            plain = tune(
                FairCP(RANK, method="none", center=True),
                parts.train,
                validation=parts.validation,
            ).model
            task = Task(parts.train, groups, plain)
            for contender, fit in CONTENDERS.items():
                found = _judge(data, task, fit(task), parts.test)
                row = {"data": name, "contender": contender, **found}
                yield {**row, "skipped": None}


def _judge(data: Dataset, task: Task, result: Result, test: TensorData) -> Row:
    """Return all numbers of a contender."""
    user, item = test.cells.numpy()
    errors = (result.scores[user, item] - test.entries.numpy()) ** 2
    tested = np.zeros(data.tensor.observed, bool)
    keys = [np.ravel_multi_index(tuple(d.cells.numpy()), d.shape) for d in (data.tensor, test)]
    tested[np.isin(keys[0], keys[1])] = True
    gender = np.where(task.groups == 1, "men", "women")
    settings = {
        "rated": data.tensor.keep(~tested),
        "sensitive_features": gender,
        "k": K,
        "threshold": RELEVANT,
        "bootstraps": BOOTSTRAPS,
    }
    full = evaluate_rankings(result.scores, test, **settings)
    few = evaluate_rankings(result.scores, test, **settings, negatives=NEGATIVES)
    gap, low, high = _rmse_gap(user, errors, task.groups)
    ours = audit(result.rows, sensitive_features=gender, attackers=ATTACKERS, permutations=1)
    return {
        "RMSE": float(np.sqrt(errors.mean())),
        "NDCG@10": full.value("ndcg@10"),
        "recall@10": full.value("recall@10"),
        "MAP": full.value("MAP"),
        "coverage@10": full.value("coverage@10"),
        "NDCG@10, 100 negatives": few.value("ndcg@10"),
        "recall@10, 100 negatives": few.value("recall@10"),
        "RMSE gap": f"{gap:+.3f} ({low:+.3f} to {high:+.3f})",
        "NDCG@10 gap": _gap(full, "ndcg@10"),
        "leakage": ours.leakage,
        "leakage, high": ours.leakage_interval[1],
        **theirs(result.rows, task.groups),
        "certified": result.certified,
    }


def _gap(found: object, measure: str) -> str:
    """Return women's minus men's measure, with its interval."""
    (row,) = [score for score in found.scores if score.measure == f"{measure} gap"]
    sign = 1 if row.group.startswith("women") else -1
    low, high = sorted((sign * row.low, sign * row.high))
    return f"{sign * row.value:+.3f} ({low:+.3f} to {high:+.3f})"


def _rmse_gap(
    user: np.ndarray, errors: np.ndarray, groups: np.ndarray
) -> tuple[float, float, float]:
    """Return women's minus men's RMSE, and its 95 % interval from a bootstrap of the users."""
    random = np.random.RandomState(0)
    total = np.bincount(user, errors, minlength=len(groups))
    count = np.bincount(user, minlength=len(groups))
    parts = []
    for group in (0, 1):
        own = np.flatnonzero(groups == group)
        even = np.full(len(own), 1 / len(own))
        draws = random.multinomial(len(own), even, size=BOOTSTRAPS)
        draws = np.vstack([np.ones(len(own)), draws])
        parts.append(np.sqrt(draws @ total[own] / (draws @ count[own])))
    varied = parts[0] - parts[1]
    low, high = np.quantile(varied[1:], [0.025, 0.975])
    return float(varied[0]), float(low), float(high)
