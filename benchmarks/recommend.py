"""Fair recommenders: what each method costs, and what attackers still learn about the users.

Run with ``python -m benchmarks.run recommend``. Generated ratings need nothing; MovieLens is read
from the reader's own copy in the folder PARAFAIR_DATA, and skipped without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.recommend_attackers import theirs
from benchmarks.recommend_contenders import CONTENDERS, Grid, Result, Task
from parafair import (
    Audit,
    FairCP,
    TensorData,
    audit,
    datasets,
    evaluate_rankings,
    split_by_time,
    split_people,
    tune,
)
from parafair.datasets import Dataset
from parafair.errors import ParafairWarning

Row = dict[str, object]

RANK, K, RELEVANT, NEGATIVES, BOOTSTRAPS = 5, 10, 4.0, 100, 1000
# The leakage that is allowed when settings are chosen.
BUDGET = 0.05
# A linear attacker, a smooth one, trees and neighbors; all of the library take four times as long.
ATTACKERS = ("linear", "svm", "boosting", "neighbors")
DATA: dict[str, Callable[[], Dataset]] = {
    "generated": lambda: datasets.ratings(users=600, items=200),
    "MovieLens 100k": lambda: datasets.movielens(size="100k"),
    "MovieLens 1m": lambda: datasets.movielens(size="1m"),
}


def recommend() -> Iterable[Row]:
    """Ten methods on ratings, gender as the sensitive feature, each with its best setting.

    Each user's ratings are split by time, 70 % to fit, 10 % for validation and 20 % for the test.
    The ridge is that of the plain decomposition with the smallest validation error. Every method
    has up to three settings, which are compared on one half of the users, the validation people:
    the one with the smallest error of their validation ratings among those whose rows have at most
    the budget of leakage, 0.05; if none has, the one with the least leakage. Everything else is
    measured on the other half, the test people, and their test ratings. Ratings of 4 and 5 are
    relevant. Lists rank all items without those rated before, or 100 random others with the
    relevant ones. Intervals are 95 %, from a bootstrap of the test people; that of the leakage is
    the audit's. Gaps are women's and men's difference. "leakage" is that of parafair's audit with
    four attackers. The numbers after it are scores of attackers of publications, chance 0.5.
    Boosted trees are scikit-learn's, in place of XGBoost.
    """
    row: Row = {}
    for name, load in DATA.items():
        try:
            data = load()
        except FileNotFoundError as error:
            reason = str(error).partition(";")[0]
            yield {**dict.fromkeys(row), "data": name, "contender": "all", "skipped": reason}
            continue
        with warnings.catch_warnings():
            # Items that appear late have no training entries.
            warnings.simplefilter("ignore", ParafairWarning)
            contest = Contest.of(data)
            for contender, grid in CONTENDERS.items():
                row = {"data": name, "contender": contender, **contest.run(grid)}
                yield {**row, "skipped": None}


@dataclass(frozen=True, eq=False)
class Contest:
    """What all contenders are measured by.

    Attributes:
        task: What they get.
        validation: Ratings that settings are compared by.
        test: Ratings that are predicted.
        rated: All ratings but those of the test.
        chosen_by: The validation people.
        judged_by: The test people.
    """

    task: Task
    validation: TensorData
    test: TensorData
    rated: TensorData
    chosen_by: np.ndarray
    judged_by: np.ndarray

    @classmethod
    def of(cls, data: Dataset) -> Contest:
        """Split the ratings and the users, and fit the plain decomposition."""
        parts = split_by_time(data.tensor, data.times, test_size=0.2, validation_size=0.1)
        assert parts.validation is not None
        groups = (data.sensitive_features["gender"] == "M").to_numpy().astype(int)
        plain = tune(
            FairCP(RANK, method="none", center=True), parts.train, validation=parts.validation
        ).model
        keys = [_keys(part) for part in (data.tensor, parts.test)]
        people = split_people(len(groups), groups=groups, test_size=0.5)
        return cls(
            Task(parts.train, groups, plain),
            parts.validation,
            parts.test,
            data.tensor.keep(~np.isin(*keys)),
            people.train,
            people.test,
        )

    def run(self, grid: Grid) -> Row:
        """Choose a setting on the validation people, and measure it on the test people."""
        tried = []
        for setting, fit in grid.items():
            result = fit(self.task)
            leakage = self._audit(result, self.chosen_by).leakage
            errors = _squares(result, self.validation, self.chosen_by)
            tried.append((setting, result, leakage, float(np.sqrt(errors.mean()))))
        within = [one for one in tried if one[2] <= BUDGET]
        best = min(within, key=lambda one: one[3]) if within else min(tried, key=lambda one: one[2])
        setting, result, leakage, error = best
        return {
            "setting": setting,
            "settings": len(grid),
            "within budget": bool(within),
            "validation leakage": leakage,
            "validation RMSE": error,
            **self._judge(result),
        }

    def _audit(self, result: Result, people: np.ndarray) -> Audit:
        return audit(
            result.rows[people],
            sensitive_features=self._gender(people),
            attackers=ATTACKERS,
            permutations=1,
        )

    def _gender(self, people: np.ndarray) -> np.ndarray:
        return np.where(self.task.groups[people] == 1, "men", "women")

    def _judge(self, result: Result) -> Row:
        """Return all numbers of a contender on the test people."""
        people = self.judged_by
        groups = self.task.groups[people]
        squares = _squares(result, self.test, people)
        settings = {
            "rated": self.rated.take(0, people),
            "sensitive_features": self._gender(people),
            "k": K,
            "threshold": RELEVANT,
            "bootstraps": BOOTSTRAPS,
        }
        scores, test = result.scores[people], self.test.take(0, people)
        full = evaluate_rankings(scores, test, **settings)
        few = evaluate_rankings(scores, test, **settings, negatives=NEGATIVES)
        found = self._audit(result, people)
        random = np.random.RandomState(0)
        masks = (groups >= 0, groups == 1, groups == 0)
        own, men, women = (_rmse(squares, mask, random) for mask in masks)
        return {
            "RMSE": _with_interval(own),
            "NDCG@10": _measure(full, "ndcg@10"),
            "recall@10": _measure(full, "recall@10"),
            "MAP": full.value("MAP"),
            "coverage@10": full.value("coverage@10"),
            "NDCG@10, 100 negatives": few.value("ndcg@10"),
            "RMSE gap": _with_interval(women - men, sign="+"),
            "NDCG@10 gap": _gap(full, "ndcg@10"),
            "leakage": f"{found.leakage:.3f} ({_ends(found.leakage_interval)})",
            **theirs(result.rows[people], groups),
            "certified": result.certified,
        }


def _keys(data: TensorData) -> np.ndarray:
    """Return the number of every observed cell."""
    return np.ravel_multi_index(tuple(data.cells.numpy()), data.shape)


@dataclass(frozen=True)
class Squares:
    """Squared errors by person: their sums and numbers."""

    total: np.ndarray
    count: np.ndarray

    def mean(self) -> float:
        """Return the mean over all entries."""
        return float(self.total.sum() / self.count.sum())


def _squares(result: Result, data: TensorData, people: np.ndarray) -> Squares:
    """Return the squared errors of the predicted ratings of some people."""
    user, item = data.cells.numpy()
    squares = (result.scores[user, item] - data.entries.numpy()) ** 2
    n = len(result.rows)
    return Squares(
        np.bincount(user, squares, minlength=n)[people], np.bincount(user, minlength=n)[people]
    )


def _rmse(squares: Squares, members: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Return the RMSE of some people, and then of bootstraps of them."""
    own = np.flatnonzero(members)
    draws = random.multinomial(len(own), np.full(len(own), 1 / len(own)), size=BOOTSTRAPS)
    draws = np.vstack([np.ones(len(own)), draws])
    found: np.ndarray = np.sqrt(draws @ squares.total[own] / (draws @ squares.count[own]))
    return found


def _with_interval(values: np.ndarray, sign: str = "") -> str:
    """Return the first value, with the 95 % interval of the others."""
    return f"{values[0]:{sign}.3f} ({_ends(np.quantile(values[1:], [0.025, 0.975]), sign)})"


def _ends(interval: Iterable[float], sign: str = "") -> str:
    low, high = interval
    return f"{low:{sign}.3f} to {high:{sign}.3f}"


def _measure(found: object, measure: str) -> str:
    return f"{found.value(measure):.3f} ({_ends(found.interval(measure))})"


def _gap(found: object, measure: str) -> str:
    """Return women's minus men's measure, with its interval."""
    (row,) = [score for score in found.scores if score.measure == f"{measure} gap"]
    sign = 1 if row.group.startswith("women") else -1
    ends = sorted((sign * row.low, sign * row.high))
    return f"{sign * row.value:+.3f} ({_ends(ends, '+')})"
