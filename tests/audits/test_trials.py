import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

from parafair.audits.attacker import Attacker
from parafair.audits.attackers import ATTACKERS
from parafair.audits.trials import Plan, auc, predict_all, try_attackers
from parafair.data.sensitive import SensitiveFeatures
from parafair.testing import example_rows

ROWS = example_rows(60, 3, seed=0).numpy()
PLAN = Plan(folds=3, repeats=2, n_jobs=None, precision=2.0**-52, seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_auc_is_that_of_scikit_learn(seed):
    random = np.random.RandomState(seed)
    members = random.permutation(40) < 5 + seed
    scores = random.randint(6, size=40).astype(float)  # many ties
    scores[:3] = -np.inf
    finite = np.nan_to_num(scores, neginf=-9)  # scikit-learn refuses infinite ones
    assert auc(members, scores) == pytest.approx(roc_auc_score(members, finite))


@pytest.mark.parametrize("sizes", [(20, 20, 20), (3, 50, 7), (40, 19, 1)])
def test_folds_are_those_of_scikit_learn(sizes):
    codes = np.random.RandomState(0).permutation(np.repeat(["c", "a", "b"], sizes))
    groups = SensitiveFeatures.of(codes).columns[0]
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a group has fewer members than folds
        expected = [test for _, test in folds.split(ROWS, codes)]
    found = [np.flatnonzero(number == fold) for number in PLAN.numbers(groups) for fold in range(3)]
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_folds_of_numbers_are_even():
    numbers = SensitiveFeatures.of(ROWS[:, 0]).columns[0]
    first, second = PLAN.numbers(numbers)
    assert np.bincount(first).tolist() == np.bincount(second).tolist() == [20, 20, 20]
    assert (first != second).any()


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers who it was trained on; its answers say so."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        SPIED.append((len(X), len(y)))
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


SPIED = []


def test_the_inner_models_see_neither_of_two_folds():
    SPIED.clear()
    groups = SensitiveFeatures.of(np.arange(60) % 2).columns[0]
    plan = replace(PLAN, repeats=1, folds=4)
    spy = {"spy": replace(Attacker.from_estimator("spy", Spy()), inputs=("ranks",))}
    trials = try_attackers(ROWS, groups, spy, plan, lambda: None)
    assert sorted(n for n, _ in SPIED) == [30] * 6 + [45] * 4
    (answers,) = trials.answers
    assert answers.inner.shape == (4, 60, 1, 1)
    (number,) = plan.numbers(groups)
    without = plan.excluded(groups, number)
    assert without == [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_groups_too_small_for_inner_models_have_none():
    groups = SensitiveFeatures.of(np.where(np.arange(60) < 2, "a", "b")).columns[0]
    plan = replace(PLAN, repeats=1)
    (number,) = plan.numbers(groups)
    assert plan.excluded(groups, number) == [(0,), (1,), (2,)]


def test_new_people_are_tested_by_models_of_the_known():
    groups = SensitiveFeatures.of((ROWS[:, 0] > 0).astype(int)).columns[0]
    plan = replace(PLAN, repeats=1, known=40)
    (number,) = plan.numbers(groups)
    assert (number[40:] == 3).all()
    assert plan.excluded(groups, number) == [(3,), (0, 3), (1, 3), (2, 3)]
    trials = try_attackers(ROWS, groups, {"linear": ATTACKERS["linear"]}, plan, lambda: None)
    assert trials.answers[0].scores(np.ones((1, 60))).min() > 0.8
    assert trials.answers[0].gain(np.ones((1, 60)), np.ones((1, 60)))[0] > 0.3


def test_predictions_that_are_no_numbers_are_a_failure():
    numbers = SensitiveFeatures.of(ROWS[:, 0]).columns[0]
    broken = {"broken": Attacker.from_estimator("broken", Broken())}
    with pytest.raises(ValueError, match="attackers: 'broken' predicted NaN or infinite numbers"):
        try_attackers(ROWS, numbers, broken, PLAN, lambda: None)


class Broken(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), np.nan)


def test_guesses_are_in_the_order_of_the_people():
    numbers = SensitiveFeatures.of(100 * ROWS[:, 0]).columns[0]
    answers, scores = predict_all(ROWS, numbers, ATTACKERS["linear"], PLAN)
    np.testing.assert_allclose(answers, numbers.values, atol=1)
    np.testing.assert_array_equal(scores[:, 0], answers)
    groups = SensitiveFeatures.of(np.digitize(ROWS[:, 0], [-0.5, 0.5]).astype(str)).columns[0]
    answers, scores = predict_all(ROWS, groups, ATTACKERS["linear"], PLAN)
    assert (answers == groups.values).mean() > 0.85
    assert scores.shape == (60, 3)
    np.testing.assert_array_equal(scores.argmax(1), answers)
