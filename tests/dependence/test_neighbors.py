import numpy as np
import pytest
from scipy.spatial.distance import cdist

from parafair import SensitiveFeatures
from parafair.dependence.neighbors import NEAR_SHARE, near_rows, near_trained, nearest_trained
from parafair.testing import example_rows


def test_the_alike_are_the_nearest_with_the_same_categories():
    plain = example_rows(60, 2, seed=0) @ example_rows(2, 2, seed=1)
    rows = example_rows(30, 2, seed=2)
    own, theirs = np.arange(60) % 3, np.arange(30) % 3
    features = SensitiveFeatures.of(own)
    found = nearest_trained(rows, features.read(theirs), plain=plain, trained_features=features)
    inverse = np.linalg.inv(np.cov(plain.numpy().T))
    distances = cdist(rows.numpy(), plain.numpy(), "mahalanobis", VI=inverse)
    expected = np.where(own == theirs[:, None], distances, np.inf).argmin(1)
    np.testing.assert_array_equal(found, expected)


def test_a_combination_that_nobody_has_is_like_those_who_agree_in_most():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"one": ["a", "b", "b"] * 4, "two": ["x", "x", "y"] * 4, "three": ["p", "p", "q"] * 4}
    )
    features = SensitiveFeatures.of(table)
    new = pandas.DataFrame({"one": ["a"], "two": ["y"], "three": ["q"]})
    for seed in range(10):
        found = nearest_trained(
            example_rows(1, 2, seed=seed),
            features.read(new),
            plain=example_rows(12, 2, seed=50),
            trained_features=features,
        )
        assert table["three"][found[0]] == "q"


def test_numeric_features_of_the_alike_are_near():
    rows = example_rows(2000, 3, seed=0)
    age = np.random.default_rng(0).uniform(20, 60, 2000)
    features = SensitiveFeatures.of(age)
    new = np.random.default_rng(1).uniform(20, 60, 100)
    found = nearest_trained(
        example_rows(100, 3, seed=1), features.read(new), plain=rows, trained_features=features
    )
    assert np.median(np.abs(age[found] - new)) < 0.2 * np.median(np.abs(age[:100] - new))


def test_a_near_person_is_drawn_among_the_nearest():
    plain, rows = example_rows(100, 2, seed=0), example_rows(40, 2, seed=1)
    features = SensitiveFeatures.of(np.arange(100) % 2)
    settings = {"plain": plain, "trained_features": features}
    new = features.read(np.arange(40) % 2)
    distances = cdist(rows, plain, "mahalanobis", VI=np.linalg.inv(np.cov(plain.numpy().T)))
    distances[np.arange(40)[:, None] % 2 != np.arange(100) % 2] = np.inf
    count = int(NEAR_SHARE * 50)
    for drawn, expected in [(0.0, 0), (0.55, int(0.55 * count)), (0.999, count - 1)]:
        found, far = near_trained(rows, new, drawn=np.full(40, drawn), **settings)
        np.testing.assert_array_equal(found, distances.argsort(1)[:, expected])
        # Whitened by the covariance over n.
        np.testing.assert_allclose(far * 0.99**0.5, np.sort(distances)[:, expected], rtol=1e-6)
    first, _ = near_trained(rows, new, drawn=np.zeros(40), **settings)
    np.testing.assert_array_equal(first, nearest_trained(rows, new, **settings))


def test_rows_next_to_a_row_do_not_depend_on_units():
    rows, chosen = example_rows(80, 3, seed=2), np.arange(20)
    drawn = np.random.default_rng(0).random(20)
    found = near_rows(rows, chosen, drawn=drawn)
    scaled = near_rows(rows * 1000, chosen, drawn=drawn)
    np.testing.assert_allclose(scaled / 1000, found, rtol=1e-9)
    np.testing.assert_array_equal(near_rows(rows, chosen, drawn=np.zeros(20)), rows[:20])
