import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from parafair.audits.forest import ForestClassifier, ForestRegressor
from parafair.testing import example_rows

ROWS = example_rows(240, 4, seed=0).numpy()
TRAIN, TEST = ROWS[:160], ROWS[160:]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_probabilities_are_those_of_scikit_learn(groups):
    # Equally large groups: versions of scikit-learn weight them differently.
    places = (ROWS[:160, 0] + 0.5 * ROWS[:160, 1]).argsort().argsort()
    labels = np.array(["a", "b", "c", "d"])[places * groups // 160]
    own = ForestClassifier(400, random_state=0).fit(TRAIN, labels)
    other = RandomForestClassifier(400, min_samples_leaf=2, random_state=0).fit(TRAIN, labels)
    assert own.classes_.tolist() == other.classes_.tolist()
    found, expected = own.predict_proba(TEST), other.predict_proba(TEST)
    np.testing.assert_allclose(found.sum(1), 1)
    # Both are means over 400 random trees, with standard errors of up to 0.025.
    assert np.abs(found - expected).mean() < 0.02
    assert abs((found - expected)[:, 0].mean()) < 0.01
    assert (own.predict(TEST) == other.predict(TEST)).mean() > 0.9


def test_large_groups_are_not_favored():
    labels = np.arange(160) < 16
    forest = ForestClassifier(100, random_state=0).fit(TRAIN, labels)
    assert (forest.predict(TRAIN) == labels).mean() > 0.95
    drawn = [tree.tree_.value[0, 0, 0] for tree in forest.trees_]
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.02)


def test_numbers_are_those_of_scikit_learn():
    numbers = 100 + 20 * ROWS[:, 0] * ROWS[:, 1]
    own = ForestRegressor(400, random_state=0).fit(TRAIN, numbers[:160])
    other = RandomForestRegressor(400, min_samples_leaf=2, random_state=0)
    expected = other.fit(TRAIN, numbers[:160]).predict(TEST)
    assert np.abs(own.predict(TEST) - expected).mean() < 0.1 * numbers.std()


def test_the_seed_is_honored():
    labels = ROWS[:160, 0] > 0
    first, same, other = (
        ForestClassifier(20, random_state=seed).fit(TRAIN, labels).predict_proba(TEST)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
