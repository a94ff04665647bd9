import numpy as np
import pytest
from sklearn.base import clone

from parafair.audits.inputs import (
    INPUTS,
    LINEAR_UP_TO,
    InputColumns,
    compress,
    extreme_people,
    robust_units,
    standardize,
)
from parafair.testing import example_rows

ROWS = example_rows(400, 3, seed=0).numpy()
MIXING = np.array([[1, 1, 0], [0, 1e-4, 0], [3, 0, 1]])


def seen(rows, form="standardized", **settings):
    return InputColumns(form, **settings).fit_transform(rows)


def test_robust_units_of_normal_data_are_mean_and_standard_deviation():
    center, scale = robust_units(5 + 2 * example_rows(20_000, 1, seed=1).numpy())
    assert center == pytest.approx(5, abs=0.05)
    assert scale == pytest.approx(2, rel=0.03)


def test_robust_units_of_mostly_equal_values_are_those_of_the_others():
    values = np.r_[np.full(95, 3.0), 1.0, 5.0, 7.0, 7.0, 7.0]
    assert robust_units(values) == (3.0, 4.0)
    assert robust_units(np.full(9, 2.0)) == (2.0, 0.0)


@pytest.mark.parametrize("form", ["standardized", "whitened"])
def test_ordinary_columns_have_mean_zero_and_variance_one(form):
    found = seen(1e6 + ROWS * [1e-3, 1, 1e3], form)
    np.testing.assert_allclose(found.mean(0), 0, atol=0.15)
    np.testing.assert_allclose(found.std(0), 1, atol=0.15)


def test_whitened_columns_are_uncorrelated():
    found = seen(ROWS @ MIXING, "whitened")
    np.testing.assert_allclose(found.T @ found / 400, np.eye(3), atol=0.25)


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("value", [1e3, 1e20, 1e300])
def test_a_few_people_far_away_change_nobody_else(form, value):
    rows = ROWS @ MIXING
    far = rows.copy()
    far[:20] = value * np.random.RandomState(0).choice([-1, 1, 0.5], size=(20, 3))
    found, before = seen(far, form)[20:], seen(rows, form)[20:]
    # Directions may turn a little; what is near stays near.
    distances = np.linalg.norm(found[1:] - found[:-1], axis=1)
    expected = np.linalg.norm(before[1:] - before[:-1], axis=1)
    assert np.corrcoef(distances, expected)[0, 1] > 0.9
    assert 0.5 < np.median(distances / expected) < 2
    assert np.isfinite(seen(far, form)).all()
    assert np.abs(seen(far, form)).max() < 750


@pytest.mark.parametrize(
    "change", [np.exp, np.cbrt, lambda x: 1e9 * x + 7, lambda x: np.exp(30 * x)]
)
def test_ranks_are_the_same_for_any_increasing_function(change):
    np.testing.assert_allclose(seen(change(ROWS), "ranks"), seen(ROWS, "ranks"))


def test_ranks_of_new_people_are_between_those_of_the_training_people():
    columns = InputColumns("ranks").fit(np.arange(9.0)[:, None])
    found = columns.transform([[-5.0], [3.5], [4.0], [99.0]]).ravel()
    assert found[2] == pytest.approx(0)
    assert found[0] < columns.transform([[0.0]])[0, 0] < found[1] < found[2] < found[3]


def test_a_large_shift_leaves_what_can_still_be_read():
    groups = np.arange(60) % 2
    found = seen(3e14 + groups[:, None] + 0.01 * ROWS[:60])
    assert found[groups == 0].max() < found[groups == 1].min()


@pytest.mark.parametrize("precision", [2.0**-52, 2.0**-23])
def test_rounding_error_is_not_made_a_direction(precision):
    dependent = ROWS[:, :2] @ example_rows(2, 5, seed=1).numpy()
    if precision > 1e-10:
        dependent = dependent.astype(np.float32)
    assert seen(100 + dependent, "whitened", precision=precision).shape == (400, 2)


def test_a_direction_in_which_few_people_vary_is_kept():
    rows = np.column_stack([ROWS[:, 0], np.where(np.arange(400) < 20, 1.0, 0.0)]) @ MIXING[:2, :2]
    found = seen(rows, "whitened")
    assert found.shape == (400, 2)
    assert np.abs(found[:20] - found[20:].mean(0)).max(1).min() > 0.5


@pytest.mark.parametrize("form", INPUTS)
def test_columns_that_do_not_vary_are_zero(form):
    np.testing.assert_allclose(seen(np.full((10, 3), 0.1), form), 0, atol=1e-12)
    found = seen(np.column_stack([ROWS[:, 0], np.zeros(400)]), form)
    assert np.isfinite(found).all()
    assert found.std(0).max() == pytest.approx(1, abs=0.2)


def test_far_values_are_compressed_in_order():
    values = np.array([-1e300, -1e20, -6.0, -5.0, 0.0, 1.0, 4.9, 5.1, 1e100])
    found = compress(values)
    assert (np.diff(found) > 0).all()
    near = np.abs(values) <= LINEAR_UP_TO
    np.testing.assert_array_equal(found[near], values[near])
    assert np.isfinite(standardize(np.array([1.7e308, -1.7e308]), np.zeros(1), np.ones(1))).all()


def test_extreme_people_are_found_farthest_first():
    rows = ROWS.copy()
    rows[7, 1], rows[3, 0] = 1e20, -1e3
    assert extreme_people(rows).tolist() == [7, 3]
    assert not len(extreme_people(ROWS))


def test_settings_survive_cloning():
    assert clone(InputColumns("whitened", precision=1e-7)).get_params() == {
        "form": "whitened",
        "precision": 1e-7,
    }
