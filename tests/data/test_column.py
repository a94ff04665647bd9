import numpy as np
import pytest

from parafair.data.column import Column


def numeric(values):
    return Column.of("age", np.asarray(values, float), "numeric")


class TestBin:
    def test_numbers_are_cut_into_parts_of_equal_size(self):
        parts = numeric(np.linspace(0, 1, 100)).bin(4)
        assert np.bincount(parts.values).tolist() == [25] * 4
        assert parts.categories[0] == "0 to 0.2424"
        words = Column.of("word", np.array(["a", "b", "b"]))
        assert words.bin(4) is words

    @pytest.mark.parametrize("sizes", [(50, 40, 10), (10, 5, 85), (1, 98, 1), (99, 1), (1, 99)])
    @pytest.mark.parametrize("parts", [2, 4])
    def test_tied_numbers_leave_no_part_empty_and_are_never_one(self, sizes, parts):
        found = numeric(np.repeat(np.arange(len(sizes)) + 0.5, sizes)).bin(parts)
        assert len(found.categories) > 1
        assert np.bincount(found.values, minlength=len(found.categories)).min() > 0


def test_people_without_a_value_are_marked():
    has_value = np.array([True, False, True, True])
    words = Column.of("word", np.array(["a", "b", "b"])).scatter(has_value)
    assert words.values.tolist() == [0, -1, 1, 1]
    np.testing.assert_array_equal(
        numeric([1.5, 2.5, 3.5]).scatter(has_value).values, [1.5, np.nan, 2.5, 3.5]
    )


def test_other_people_must_have_the_same_categories_or_finite_numbers():
    with pytest.raises(ValueError, match="sensitive feature 'word' must be one of a, b; got 'c'"):
        Column.of("word", np.array(["a", "b", "b"])).read(np.array(["c"]))
    with pytest.raises(ValueError, match="sensitive feature 'age' must hold finite numbers"):
        numeric([1.5, 2.5, 3.5]).read(np.array([np.inf]))


def test_a_feature_that_almost_labels_the_people_is_refused_with_a_remedy():
    codes = np.array([f"zip {i}" for i in range(80)] + ["zip 0"] * 20)
    with pytest.raises(ValueError, match="'zip' has 80 groups for 100 people, 79 .* leave it out"):
        Column.of("zip", codes)
    assert len(Column.of("zip", codes[np.arange(100) % 50]).categories) == 50
    assert len(Column.of("word", np.array(["a", "b", "c", "c"])).categories) == 3


def test_numbers_that_never_repeat_are_refused_unless_they_are_stated_to_measure():
    random = np.random.default_rng(0)
    ids = random.permutation(np.arange(1, 31))
    with pytest.raises(ValueError, match="each of the 30 people, from 1 to 30, .* leave it out"):
        Column.of("id", ids)
    assert Column.of("rank", ids, "numeric").kind == "numeric"
    assert Column.of("income", 7 * ids).kind == "numeric"
    some = random.choice(6040, 943, replace=False)  # a part of a catalog
    with pytest.raises(ValueError, match="each of the 943 people, .* kinds={'id': 'numeric'}"):
        Column.of("id", some)
    assert Column.of("income", random.integers(6040, size=943)).kind == "numeric"
    assert Column.of("salt", random.integers(10**9, size=943)).kind == "numeric"


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], 1j, b"f", object()])
def test_values_that_are_no_scalars_are_refused(value):
    values = np.empty(2, object)
    values[:] = [value, "m"]
    with pytest.raises(ValueError, match="'g' must hold text, numbers or dates, got"):
        Column.of("g", values)


def test_values_of_different_types_are_categories():
    column = Column.of("g", np.array([1, "a", 1, 10**30], object))
    assert column.categories == ("1", str(10**30), "a")


def test_a_column_without_any_number_says_so():
    assert Column("age", "numeric", np.full(3, np.nan)).summary == "age: no values"
    assert Column("age", "numeric", np.array([2, np.nan])).summary == "age: 2 to 2"


def test_large_whole_numbers_are_told_apart():
    column = Column.of("id", np.arange(12) + 2**62, "numeric")
    small = Column.of("id", np.arange(12), "numeric")
    np.testing.assert_allclose(column.encode(), small.encode(), rtol=1e-12)
