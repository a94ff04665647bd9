import numpy as np
import pytest

from parafair.audits.features import (
    MOST_GROUPS,
    OTHER,
    check_groups,
    check_new,
    in_robust_units,
    join,
    most_folds,
)
from parafair.data.sensitive import SensitiveFeatures


def features(**columns):
    single = [
        SensitiveFeatures.of(np.asarray(values), names=[name]) for name, values in columns.items()
    ]
    return SensitiveFeatures(tuple(one.columns[0] for one in single))


def test_groups_of_one_are_refused():
    with pytest.raises(ValueError, match="group 'b' of sensitive feature 's0' has only one member"):
        check_groups(SensitiveFeatures.of(np.array([["a"]] * 9 + [["b"]])))
    check_groups(SensitiveFeatures.of(np.linspace(0, 1, 9)))


def test_folds_are_as_many_as_the_people_allow():
    assert most_folds(features(g=["a", "b"] * 4).columns, 5) == 4
    assert most_folds(features(g=["a", "b"] * 2).columns, 5) == 2
    assert most_folds(features(age=np.linspace(0, 1, 13)).columns, 5) == 4
    assert most_folds(features(age=np.linspace(0, 1, 4)).columns, 5) == 2
    assert most_folds(features(g=["a", "b"] * 40).columns, 5) == 5


def test_groups_without_new_people_are_refused():
    known, new = features(g=["a", "b", "c"] * 3), features(g=["a", "b", "c"] * 3)
    check_new(known, new)
    with pytest.raises(ValueError, match="group 'b' of sensitive feature 'g' has no member among"):
        check_new(known, new.take(np.array([0, 2, 3])))


@pytest.mark.parametrize("unit", [1, 1e154, 1e-170])
def test_numbers_lose_their_unit_and_far_ones_are_compressed(unit):
    ages = np.r_[np.linspace(20, 60, 50), 9.97e36]
    (column,) = features(age=ages * unit).columns
    found = in_robust_units(column).values
    assert np.abs(found[:50]).max() < 2
    assert 2 < found[50] < 100
    (group,) = features(g=["a", "b"]).columns
    assert in_robust_units(group) is group


def test_one_feature_is_not_joined():
    assert join(features(group=["a", "b", "c"] * 20), 5) is None


def test_joined_features_are_the_cells_of_their_product():
    gender, age = np.repeat(["f", "m"], 40), np.tile(np.linspace(20, 60, 40), 2)
    both = join(features(gender=gender, age=age), 5)
    assert both.name == "gender x age"
    ages = "20 to 39.49", "40.51 to 60"
    assert set(both.categories) == {f"{group}, {part}" for group in "fm" for part in ages}
    assert np.bincount(both.values).tolist() == [20] * 4


def test_small_cells_become_one():
    first = ["a"] * 50 + ["b"] * 50
    second = (["x"] * 48 + ["y"] * 2) + (["x"] * 45 + ["y"] * 5)
    both = join(features(first=first, second=second), 5)
    assert both.categories == ("a, x", "b, x", OTHER)
    assert np.bincount(both.values).tolist() == [48, 45, 7]


def test_many_cells_are_limited():
    random = np.random.RandomState(0)
    both = join(features(**{name: random.randint(6, size=900).astype(str) for name in "ab"}), 5)
    assert len(both.categories) == MOST_GROUPS + 1
    assert np.bincount(both.values).sum() == 900


def test_features_that_say_the_same_are_not_joined():
    assert join(features(one=["a", "b"] * 20, two=[1, 2] * 20), 5) is None
