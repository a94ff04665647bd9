import numpy as np
import pytest

from parafair.audits.features import MOST_CELLS, OTHER, check_groups, cut, join, sample, take
from parafair.sensitive import SensitiveFeatures


def column(values, name="s", kind=None):
    return SensitiveFeatures.of(np.asarray(values), kinds=kind, names=[name]).columns[0]


def test_a_sample_holds_some_of_every_group():
    rare = SensitiveFeatures.of(np.where(np.arange(1000) < 5, "rare", "common"))
    people = sample(rare, 50, np.random.RandomState(0))
    assert len(people) == len(set(people)) == 50
    assert (people < 5).sum() == 5
    assert set(take(rare.columns[0], people).values) == {0, 1}


def test_few_people_are_all_taken():
    everybody = SensitiveFeatures.of(np.arange(30) % 2)
    np.testing.assert_array_equal(sample(everybody, 30, np.random.RandomState(0)), np.arange(30))


def test_a_sample_too_small_for_the_groups_is_refused():
    groups = SensitiveFeatures.of(np.arange(90) % 3)
    with pytest.raises(ValueError, match="max_people must be at least 30 .*, got 12"):
        sample(groups, 12, np.random.RandomState(0))


def test_groups_of_one_are_refused():
    with pytest.raises(ValueError, match="group 'b' of sensitive feature 's0' has only one member"):
        check_groups(SensitiveFeatures.of(np.array([["a"]] * 9 + [["b"]])))
    check_groups(SensitiveFeatures.of(np.linspace(0, 1, 9)))


def test_numbers_are_cut_into_parts_of_equal_size():
    parts = cut(column(np.linspace(0, 1, 101)), 4)
    assert parts.categories == ("<= 0.25", "0.25 to 0.5", "0.5 to 0.75", "> 0.75")
    assert np.bincount(parts.values).tolist() == [26, 25, 25, 25]
    words = column(["a", "b", "b"])
    assert cut(words, 4) is words


def test_tied_numbers_leave_no_part_empty():
    parts = cut(column([1.5] * 50 + [2.5] * 40 + [3.5] * 10, kind="numeric"), 4)
    sizes = np.bincount(parts.values, minlength=len(parts.categories))
    assert sizes.min() > 0
    top_heavy = cut(column([1.5] * 10 + [2.5] * 5 + [3.5] * 85, kind="numeric"), 2)
    assert np.bincount(top_heavy.values, minlength=len(top_heavy.categories)).min() > 0


def test_joined_features_are_the_cells_of_their_product():
    gender = column(np.repeat(["f", "m"], 40), "gender")
    age = column(np.tile(np.linspace(20, 60, 40), 2), "age")
    both = join((gender, age), 5)
    assert both.name == "gender x age"
    assert set(both.categories) == {"f, <= 39.5", "f, > 39.5", "m, <= 39.5", "m, > 39.5"}
    assert np.bincount(both.values).tolist() == [20] * 4


def test_small_cells_become_one():
    first = column(["a"] * 50 + ["b"] * 50, "first")
    second = column((["x"] * 48 + ["y"] * 2) + (["x"] * 45 + ["y"] * 5), "second")
    both = join((first, second), 5)
    assert both.categories == ("a, x", "b, x", OTHER)
    assert np.bincount(both.values).tolist() == [48, 45, 7]


def test_many_cells_are_limited():
    random = np.random.RandomState(0)
    columns = tuple(column(random.randint(6, size=900).astype(str), name) for name in "ab")
    both = join(columns, 5)
    assert len(both.categories) == MOST_CELLS + 1
    assert np.bincount(both.values).sum() == 900


def test_features_that_say_the_same_are_not_joined():
    one = column(["a", "b"] * 20, "one")
    assert join((one, column([1, 2] * 20, "two")), 5) is None
