import numpy as np
import pytest
from sklearn.base import clone

from parafair.audits.inputs import FARTHEST, Standardizer
from parafair.testing import example_rows

ROWS = example_rows(60, 3, seed=0).numpy()


def test_standardized_columns_have_mean_zero_and_variance_one():
    seen = Standardizer().fit_transform(1e6 + ROWS * [1e-3, 1, 1e3])
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(seen.std(0), 1, atol=1e-6)


def test_whitened_columns_are_uncorrelated():
    mixed = ROWS @ np.array([[1, 1, 0], [0, 1e-4, 0], [3, 0, 1]])
    seen = Standardizer(whiten=True).fit_transform(mixed)
    np.testing.assert_allclose(seen.T @ seen / 60, np.eye(3), atol=1e-6)


@pytest.mark.parametrize("precision", [2.0**-52, 2.0**-23])
def test_rounding_error_is_not_made_a_direction(precision):
    dependent = ROWS[:, :2] @ example_rows(2, 5, seed=1).numpy()
    if precision > 1e-10:
        dependent = dependent.astype(np.float32)
    seen = Standardizer(whiten=True, precision=precision).fit_transform(100 + dependent)
    assert seen.shape == (60, 2)


@pytest.mark.parametrize("whiten", [False, True])
def test_columns_that_do_not_vary_are_zero(whiten):
    constant = Standardizer(whiten=whiten).fit_transform(np.full((10, 3), 0.1))
    np.testing.assert_array_equal(constant, np.zeros((10, 1)))
    seen = Standardizer(whiten=whiten).fit_transform(np.column_stack([ROWS[:, 0], np.zeros(60)]))
    assert seen.shape == (60, 1)


def test_huge_entries_do_not_overflow():
    seen = Standardizer(whiten=True).fit_transform(1e300 * ROWS)
    np.testing.assert_allclose(seen.std(0), 1, atol=1e-6)


def test_new_rows_far_away_stay_in_reach():
    columns = Standardizer(whiten=True).fit(
        np.column_stack([ROWS[:, 0], ROWS[:, 0] + 1e-9 * ROWS[:, 1]])
    )
    assert np.abs(columns.transform([[0.0, 1.0]])).max() == FARTHEST


def test_settings_survive_cloning():
    assert clone(Standardizer(whiten=True, precision=1e-7)).get_params() == {
        "whiten": True,
        "precision": 1e-7,
    }
