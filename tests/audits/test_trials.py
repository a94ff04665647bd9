import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

from parafair.audits.attackers import ATTACKERS
from parafair.audits.trials import CrossValidation, auc, predict_all, split_folds
from parafair.data.sensitive import SensitiveFeatures
from parafair.testing import example_rows

ROWS = example_rows(60, 3, seed=0).numpy()
PLAN = CrossValidation(folds=3, repeats=2, n_jobs=None, precision=2.0**-52, seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_auc_is_that_of_scikit_learn(seed):
    random = np.random.RandomState(seed)
    members = random.permutation(40) < 5 + seed
    scores = random.randint(6, size=40).astype(float)  # many ties
    scores[:3] = -np.inf
    finite = np.nan_to_num(scores, neginf=-9)  # scikit-learn refuses infinite ones
    assert auc(members, scores) == pytest.approx(roc_auc_score(members, finite))


def test_everybody_is_tested_once_per_repeat():
    groups = SensitiveFeatures.of(np.arange(60) % 4).columns[0]
    splits = split_folds(groups, PLAN)
    assert len(splits) == 6
    tested = np.concatenate([test for _, test in splits])
    assert (np.bincount(tested) == 2).all()
    assert not any(set(train) & set(test) for train, test in splits)


@pytest.mark.parametrize("sizes", [(20, 20, 20), (3, 50, 7), (40, 19, 1)])
def test_folds_are_those_of_scikit_learn(sizes):
    codes = np.random.RandomState(0).permutation(np.repeat(["c", "a", "b"], sizes))
    groups = SensitiveFeatures.of(codes).columns[0]
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a group has fewer members than folds
        expected = list(folds.split(ROWS, codes))
    for found, wanted in zip(split_folds(groups, PLAN), expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(wanted))


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
