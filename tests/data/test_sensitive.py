import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures

N = 6
GENDER = ["f", "m", "f", "m", "m", "f"]
AGE = [21.5, 34.0, 56.2, 18.0, 44.9, 30.1]


def only(features, **options):
    (column,) = SensitiveFeatures.of(features, **options).columns
    return column


@pytest.mark.parametrize(
    ("features", "kind"),
    [
        (GENDER, "categorical"),
        (np.array(GENDER, dtype=object), "categorical"),
        (pd.Series(GENDER, name="gender"), "categorical"),
        (pd.Series(GENDER, dtype="category"), "categorical"),
        (pd.Series(pd.Categorical([0.5, 1.5, 2.5, 0.5, 1.5, 2.5])), "categorical"),
        (pd.Series([True, False, True, False, True, True], dtype="boolean"), "categorical"),
        ([True, False, True, False, True, True], "categorical"),
        ([0, 1, 0, 1, 1, 0], "categorical"),
        ([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], "categorical"),
        ([1, 2, 3, 1, 2, 3], "categorical"),
        (AGE, "numeric"),
        (torch.tensor(AGE), "numeric"),
        (list(range(0, 40, 2)), "numeric"),
        (pd.Series([1, 2, 3, 40, 50, 60, 7, 8, 9, 10, 11], dtype="Int64"), "numeric"),
    ],
)
def test_kind_is_inferred(features, kind):
    assert only(features).kind == kind


def test_kind_can_be_stated():
    assert only([1, 2, 3, 1, 2, 3], kinds="numeric").kind == "numeric"
    table = pd.DataFrame({"gender": GENDER, "band": [1, 2, 3, 1, 2, 3]})
    kinds = [c.kind for c in SensitiveFeatures.of(table, kinds={"band": "numeric"}).columns]
    assert kinds == ["categorical", "numeric"]


def test_names_come_from_the_data():
    assert only(pd.Series(GENDER, name="gender")).name == "gender"
    assert only(GENDER).name == "sensitive"
    table = pd.DataFrame({"gender": GENDER, "age": AGE})
    assert [c.name for c in SensitiveFeatures.of(table).columns] == ["gender", "age"]
    plain = SensitiveFeatures.of(np.array([[1.5, 0], [2.5, 1], [3.5, 0]]))
    assert [c.name for c in plain.columns] == ["s0", "s1"]


def test_encoding_is_the_papers():
    assert only(GENDER).encode().ravel().tolist() == [0, 1, 0, 1, 1, 0]
    three = only(["a", "b", "c", "a", "b", "c"]).encode()
    assert np.array_equal(three, np.tile(np.eye(3), (2, 1)))
    number = only(AGE).encode()
    assert number.mean() == pytest.approx(0, abs=1e-12)
    assert number.std() == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_numbers_are_standardized_in_any_units(scale):
    np.testing.assert_allclose(only([scale * age for age in AGE]).encode(), only(AGE).encode())


def test_several_columns_stand_side_by_side():
    table = pd.DataFrame({"gender": GENDER, "age": AGE, "area": list("abcabc")})
    encoded = SensitiveFeatures.of(table).encode(prototype=torch.zeros(1, dtype=torch.float32))
    assert encoded.shape == (N, 1 + 1 + 3)
    assert encoded.dtype == torch.float32


@given(st.lists(st.sampled_from(["x", "y", "z"]), min_size=2, max_size=20))
def test_all_forms_of_the_same_values_agree(values):
    assume(2 <= len(set(values)) < len(values))
    forms = [
        values,
        np.array(values),
        pd.Series(values),
        pd.DataFrame({"v": values}),
        tuple(values),
    ]
    encoded = [SensitiveFeatures.of(form).encode() for form in forms]
    assert all(torch.equal(encoded[0], other) for other in encoded)


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (["f", "f", "f"], {}, "'sensitive' is constant"),
        (
            ["ann", "bob", "cy"],
            {},
            "has 3 groups for 3 people, 3 of them with one member.*almost labels them",
        ),
        (["f", None, "m"], {}, r"1 missing values \(rows 1\)"),
        ([1.5, float("nan"), 2.5], {}, r"1 missing values \(rows 1\)"),
        (pd.Series(["f", pd.NA, "m"], name="sex"), {}, "feature 'sex' has 1 missing values"),
        (pd.Series(["f", pd.NA, "m"], dtype=object), {}, "'sensitive' has 1 missing values"),
        (
            pd.DataFrame([["f", "x"], ["m", "y"]], columns=["a", "a"]),
            {},
            "columns of the same name",
        ),
        ([], {}, "sensitive_features is empty; pass one row"),
        (pd.DataFrame(index=range(3)), {}, "sensitive_features is empty; pass one row"),
        (np.zeros((2, 2, 2)), {}, r"1 or 2 dimensions, got shape \(2, 2, 2\)"),
        (GENDER, {"kinds": "numeric"}, "stated to be numeric but holds 'f'"),
        (GENDER, {"kinds": "categoric"}, "did you mean 'categorical'"),
        (GENDER, {"kinds": {"sensitve": "numeric"}}, "did you mean 'sensitive'"),
        ([1.0, 2.0, np.inf], {}, "'sensitive' holds infinite values; numeric"),
        (
            np.random.default_rng(0).random((3, 2)),
            {"names": ["a", "a"]},
            "names must differ from each other",
        ),
        (np.ones((3, 2)), {"names": ["a"]}, "names must be 2 names, one per column"),
    ],
)
def test_bad_features_are_refused(features, options, message):
    with pytest.raises(ValueError, match=message):
        SensitiveFeatures.of(features, **options)


def numeric(values):
    return Column.of("age", np.asarray(values, float), "numeric")


class TestJoint:
    def test_groups_are_the_combinations_that_occur(self):
        table = pd.DataFrame({"sex": ["f", "f", "m", "m"], "age": [20.5, 60.5, 20.5, 30.5]})
        joint = SensitiveFeatures.of(table).joint(2)
        assert joint.name == "sex x age"
        ages = "20.5 to 20.5", "30.5 to 60.5"
        assert list(joint.categories) == [f"{sex}, {age}" for sex in "fm" for age in ages]
        assert joint.values.tolist() == [0, 1, 2, 3]

    def test_labels_that_read_alike_stay_apart(self):
        table = pd.DataFrame({"x": ["a, b", "a", "a", "a, b"], "y": ["c", "b, c", "c", "c"]})
        assert SensitiveFeatures.of(table).joint(2).values.tolist() == [2, 0, 1, 2]

    def test_categories_without_members_are_dropped(self):
        alone = SensitiveFeatures((SensitiveFeatures.of(GENDER).columns[0].take(np.array([0, 0])),))
        assert len(alone.joint(2).categories) == 1


class TestSample:
    def test_holds_some_of_every_group(self):
        rare = SensitiveFeatures.of(np.where(np.arange(1000) < 5, "rare", "common"))
        people = rare.sample(50, np.random.RandomState(0))
        assert len(people) == len(set(people)) == 50
        assert (people < 5).sum() == 5
        assert (np.diff(people) > 0).all()
        assert set(rare.columns[0].take(people).values) == {0, 1}

    def test_few_people_are_all_taken(self):
        everybody = SensitiveFeatures.of(np.arange(30) % 2)
        people = everybody.sample(30, np.random.RandomState(0))
        np.testing.assert_array_equal(people, np.arange(30))

    def test_is_larger_if_the_groups_need_it(self):
        groups = SensitiveFeatures.of(np.arange(90) % 3)
        assert len(groups.sample(12, np.random.RandomState(0))) == 30

    def test_numbers_have_no_groups(self):
        numbers = SensitiveFeatures((numeric(np.linspace(0, 1, 50)),))
        assert len(numbers.sample(7, np.random.RandomState(0))) == 7


PEOPLE = pd.DataFrame(
    {
        "who": [30, 10, 20, 40],
        "gender": ["f", "m", None, "m"],
        "band": [1.0, 2.0, 3.0, np.nan],
        "age": [30.5, 41.0, 29.5, 33.0],
    }
)


def test_a_table_follows_the_labels(tmp_path):
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    tables = (
        PEOPLE,
        polars.DataFrame(PEOPLE.to_dict("list"), strict=False),
        arrow.Table.from_pandas(PEOPLE),
        tmp_path / "people.csv",
    )
    for table in tables:
        features = SensitiveFeatures.from_table(table, ["age"], key="who", labels=[10, 30, 40])
        (age,) = features.columns
        assert (age.name, age.kind, age.values.tolist()) == ("age", "numeric", [41.0, 30.5, 33.0])
        text = SensitiveFeatures.from_table(table, ["age"], key="who", labels=["10", "30", "40"])
        assert text.columns[0].values.tolist() == age.values.tolist()


def test_without_a_key_rows_are_in_order():
    features = SensitiveFeatures.from_table(PEOPLE, ["age"], kinds={"age": "numeric"})
    assert features.columns[0].values.tolist() == PEOPLE["age"].tolist()
    everything = SensitiveFeatures.from_table(PEOPLE.iloc[:2], key="who")
    names = [column.name for column in everything.columns]
    assert names == ["gender", "band", "age"]


def test_people_with_missing_features_can_be_excluded():
    features = SensitiveFeatures.from_table(
        PEOPLE, ["gender", "band"], key="who", labels=[10, 20, 30, 40, 50], missing="exclude"
    )
    assert len(features) == 5
    assert features.has_features.tolist() == [True, False, True, False, False]
    gender, band = features.columns
    assert gender.values.tolist() == [1, -1, 0, -1, -1]
    # Codes that a missing value had turned into floats are codes again.
    assert (band.kind, band.categories) == ("categorical", ("1", "2"))
    known = features.with_features()
    assert known.has_features is None
    assert known.columns[0].values.tolist() == [1, 0]
    assert known.encode().shape == (2, 2)
    assert known.with_features() is known


def test_a_missing_value_of_somebody_else_changes_nothing():
    polars = pytest.importorskip("polars")
    codes = [1, 2, 3, 1, 2, None]
    for table in (
        pd.DataFrame({"who": range(6), "code": codes}),
        polars.DataFrame({"who": range(6), "code": codes}),
    ):
        features = SensitiveFeatures.from_table(table, key="who", labels=range(5))
        assert features.columns[0].categories == ("1", "2", "3")


def test_a_missing_number_is_nan():
    features = SensitiveFeatures.of([1.5, None, 2.5, 4.0], missing="exclude")
    np.testing.assert_array_equal(features.columns[0].values, [1.5, np.nan, 2.5, 4.0])
    assert features.has_features.tolist() == [True, False, True, True]


def test_complete_features_need_no_mask():
    assert SensitiveFeatures.of(GENDER, missing="exclude").has_features is None


def test_incomplete_features_are_not_used_by_mistake():
    features = SensitiveFeatures.of(["a", "b", None], missing="exclude")
    for use in (
        features.encode,
        lambda: features.joint(2),
        lambda: features.sample(2, np.random.RandomState(0)),
    ):
        with pytest.raises(
            ValueError, match="1 of 3 people have missing sensitive features; use with_features"
        ):
            use()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["gendre"]}, "a column must be one of .* did you mean 'gender'"),
        ({"columns": ["age", "age"]}, "columns must be one or more different names"),
        ({"columns": []}, "columns must be one or more different names"),
        ({"key": None}, "labels are given, but no key: it needs the column"),
        ({"key": "whom"}, "key must be one of .* did you mean 'who'"),
        ({"labels": [10, 50, 60]}, "no row for 2 of 3 people, such as who 50, 60; add them, or"),
        ({"columns": ["gender"]}, "'gender' has 1 missing values .who 20.*missing='exclude'"),
        ({"missing": "drop"}, "missing must be one of error, exclude"),
        (
            {"labels": [50, 60], "missing": "exclude"},
            "has no complete row: everybody has a missing value",
        ),
    ],
)
def test_bad_tables_are_refused(options, message):
    full = {"columns": ["age"], "key": "who", "labels": [10, 20, 30], **options}
    with pytest.raises(ValueError, match=message):
        SensitiveFeatures.from_table(PEOPLE, **full)


def test_keys_must_differ_and_be_there():
    twice = pd.concat([PEOPLE, PEOPLE.iloc[:1]])
    with pytest.raises(ValueError, match="more than one row for who 30; keep one per person"):
        SensitiveFeatures.from_table(twice, ["age"], key="who")
    with pytest.raises(ValueError, match="'who' has 1 rows without a label"):
        SensitiveFeatures.from_table(
            PEOPLE.assign(who=[1, 2, None, 3]), ["age"], key="who", labels=[1]
        )
    with pytest.raises(TypeError, match="columns must be a list of names of columns, got 'age'"):
        SensitiveFeatures.from_table(PEOPLE, "age")


@pytest.mark.parametrize("first", [int, float])
@pytest.mark.parametrize("form", [np.array, lambda codes: pd.Series(codes).astype("category")])
def test_whole_floats_and_integers_are_the_same_categories(first, form):
    codes = np.array([0, 1, 0, 1, 1, 0])
    second = float if first is int else int
    features = SensitiveFeatures.of(form(codes.astype(first)))
    assert features.columns[0].categories == ("0", "1")
    assert features.read(form(codes.astype(second))).columns[0].values.tolist() == codes.tolist()


def test_fractions_stay_categories_of_their_own():
    column = only([0.5, 1.0, 0.5, 1.0, 2.5, 2.5], kinds="categorical")
    assert column.categories == ("0.5", "1", "2.5")


def test_numbers_among_text_are_found_again():
    features = np.array([1.0, "other", 1.0, "other", 2.0, 2.0], dtype=object)
    read = SensitiveFeatures.of(features).read(features[:2]).columns[0]
    assert read.labels.tolist() == ["1", "other"]


def test_other_people_with_missing_features():
    trained = SensitiveFeatures.of(pd.DataFrame({"age": [1.0, 2.0, 3.5], "sex": ["f", "m", "f"]}))
    others = pd.DataFrame({"age": np.array([1.0, None, 2.0], object), "sex": ["m", "f", None]})
    found = trained.read(others, missing="exclude")
    assert found.has_features.tolist() == [True, False, False]
    with pytest.raises(ValueError, match="sensitive feature 'age' has 1 missing values"):
        trained.read(others)
    with pytest.raises(ValueError, match="missing must be one of error, exclude"):
        trained.read(others, missing="exclde")


class TestReadTable:
    """A table of other people, by the columns and categories of the model."""

    @pytest.fixture
    def trained(self):
        return SensitiveFeatures.of(pd.DataFrame({"sex": list("fmf"), "age": [20.5, 30.5, 41.0]}))

    @pytest.fixture
    def table(self):
        others = {"who": [7, 8, 9], "age": [50.0, 60.0, np.nan], "sex": ["m", "m", "f"]}
        return pd.DataFrame(others)

    def test_follows_the_labels_and_keeps_the_codes(self, trained, table):
        found = trained.read_table(table, key="who", labels=[8, 7])
        assert [column.name for column in found.columns] == ["sex", "age"]
        assert found.columns[0].values.tolist() == [1, 1]
        assert found.columns[1].values.tolist() == [60.0, 50.0]
        assert found.has_features is None

    def test_people_without_a_row_or_a_value_are_excluded(self, trained, table):
        found = trained.read_table(table, key="who", labels=[10, 7, 9], missing="exclude")
        assert found.has_features.tolist() == [False, True, False]
        assert found.columns[0].values.tolist() == [-1, 1, -1]

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([7, 10], "table has no row for 1 of 2 people, such as who 10; add them, or"),
            ([7, 9], "sensitive feature 'age' has 1 missing values .who 9.; fill them"),
        ],
    )
    def test_or_are_an_error(self, trained, table, labels, message):
        with pytest.raises(ValueError, match=message):
            trained.read_table(table, key="who", labels=labels)

    def test_rows_are_in_order_without_a_key(self, trained, table):
        assert trained.read_table(table[:2]).columns[1].values.tolist() == [50.0, 60.0]

    def test_needs_the_columns_of_the_model(self, trained, table):
        with pytest.raises(ValueError, match="a column must be one of who, age; got 'sex'"):
            trained.read_table(table.drop(columns="sex"), key="who", labels=[7])


def test_features_that_were_read_before_keep_their_gaps():
    trained = SensitiveFeatures.of(["a", "b", "c", "a"])
    others = SensitiveFeatures.of(["c", None, "a", "c"], missing="exclude")
    found = trained.read(others)
    assert found.columns[0].values.tolist() == [2, -1, 0, 2]
    assert found.has_features.tolist() == [True, False, True, True]
