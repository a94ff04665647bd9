import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from parafair.audits.attackers import ATTACKERS
from parafair.audits.linear import DiscriminantClassifier, LinearClassifier

GROUPS = np.array(["a", "b"])[np.arange(60) % 2]


def hidden(seed=0, groups=GROUPS):
    """Columns that determine the group in a direction of small variance alone."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(len(groups), 15))
    rows[:, 0] = 1e-3 * (4 * (groups == "b") + 0.5 * rows[:, 0])
    return rows @ np.linalg.qr(random.normal(size=(15, 15)))[0]


def test_a_direction_of_small_variance_is_read_where_people_are_few_for_the_columns():
    rows, new = (hidden()[part] for part in (slice(40), slice(40, None)))
    logistic = LogisticRegression(class_weight="balanced").fit(rows, GROUPS[:40])
    assert logistic.score(new, GROUPS[40:]) < 0.75
    found = LinearClassifier().fit(rows, GROUPS[:40])
    assert found.score(new, GROUPS[40:]) > 0.9
    assert (found.classes_[found.predict_proba(new).argmax(1)] == found.predict(new)).all()


def test_a_number_in_a_direction_of_small_variance_is_read():
    random = np.random.default_rng(0)
    numbers, rows = random.normal(size=60), random.normal(size=(60, 15))
    rows[:, 0] = 1e-3 * (numbers + 0.1 * rows[:, 0])
    rows = rows @ np.linalg.qr(random.normal(size=(15, 15)))[0]
    model = ATTACKERS["linear"].make("numeric", 0).fit(rows[:40], numbers[:40])
    assert model.score(rows[40:], numbers[40:]) > 0.9


def test_of_many_people_it_is_logistic_regression():
    rows = np.random.default_rng(0).normal(size=(60, 2)) + (GROUPS == "b")[:, None]
    expected = LogisticRegression(class_weight="balanced", max_iter=2000).fit(rows, GROUPS)
    found = LinearClassifier().fit(rows, GROUPS).predict_proba(rows)
    np.testing.assert_array_equal(found, expected.predict_proba(rows))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (3, 1, 1), (2, 2), (1, 20)])
def test_groups_of_one_person_do_not_matter(sizes):
    groups = np.repeat(["a", "b", "c"][: len(sizes)], sizes)
    rows = np.random.default_rng(1).normal(size=(len(groups), 4))
    for model in (LinearClassifier(), DiscriminantClassifier()):
        shares = model.fit(rows, groups).predict_proba(rows)
        np.testing.assert_allclose(shares.sum(1), 1)
        assert set(model.predict(rows)) <= set(groups)


@pytest.mark.parametrize("columns", [1, 3, 50])
def test_constant_and_repeated_columns_are_no_trouble(columns):
    rows = np.repeat(np.arange(20.0)[:, None] % 2, columns, axis=1)
    for given in (np.zeros((20, columns)), rows, 1e100 * rows):
        model = DiscriminantClassifier().fit(given, GROUPS[:20])
        assert np.isfinite(model.predict_proba(given)).all()
    assert (model.predict(given) == GROUPS[:20]).all()
