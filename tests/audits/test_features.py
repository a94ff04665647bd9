import numpy as np
import pytest

from parafair.audits.features import MOST_GROUPS, OTHER, check_groups, join, sample
from parafair.data.sensitive import SensitiveFeatures


def features(**columns):
    single = [
        SensitiveFeatures.of(np.asarray(values), names=[name]) for name, values in columns.items()
    ]
    return SensitiveFeatures(tuple(one.columns[0] for one in single))


def test_a_sample_too_small_for_the_groups_is_refused():
    groups = SensitiveFeatures.of(np.arange(90) % 3)
    with pytest.raises(ValueError, match="max_people must be at least 30 .*, got 12"):
        sample(groups, 12, np.random.RandomState(0))


def test_groups_of_one_are_refused():
    with pytest.raises(ValueError, match="group 'b' of sensitive feature 's0' has only one member"):
        check_groups(SensitiveFeatures.of(np.array([["a"]] * 9 + [["b"]])), 5)
    check_groups(SensitiveFeatures.of(np.linspace(0, 1, 9)), 5)


def test_more_folds_than_members_of_any_group_are_refused():
    groups = SensitiveFeatures.of(np.array(["a", "b"] * 4))
    check_groups(groups, 4)
    with pytest.raises(ValueError, match="folds must be at most 4, the size of the largest group"):
        check_groups(groups, 5)


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
