import numpy as np
import pytest

from parafair import ParafairWarning, datasets

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def train(real_data):
    return datasets.adult(real_data)


@pytest.fixture(scope="module")
def test(real_data):
    return datasets.adult(real_data, subset="test")


def column(data, name):
    return data.tensor[:, data.labels[1].tolist().index(name)]


def test_the_sizes_are_the_published_ones(train, test):
    assert train.tensor.shape == (32561, 80)
    assert test.tensor.shape == (16281, 80)
    assert train.modes == ("person", "column")
    np.testing.assert_array_equal(train.labels[1], test.labels[1])
    assert (train.target == ">50K").mean() == pytest.approx(0.2408, abs=1e-4)
    assert (test.target == ">50K").mean() == pytest.approx(0.2362, abs=1e-4)
    both = pd.concat([train.sensitive_features, test.sensitive_features])
    assert both["sex"].value_counts().to_dict() == {"Male": 32650, "Female": 16192}
    assert both["race"].nunique() == 5


def test_eighty_six_columns_with_the_weight_and_race(real_data, train):
    # Earlier measurements had 86 columns without sex; this encoding has as many.
    table = pd.read_csv(real_data / "adult" / "adult.data", header=None, skipinitialspace=True)
    encoded = pd.get_dummies(table.drop(columns=[9, 14]), dtype=float)
    frequent = encoded.loc[:, encoded.mean() >= 0.001]
    assert frequent.shape[1] == 86
    ours = frequent[[name for name in frequent if not str(name).startswith("8_") and name != 2]]
    ours = (ours - ours.mean()) / ours.std(ddof=0)
    np.testing.assert_allclose(np.sort(train.tensor[0]), np.sort(ours.iloc[0]), atol=1e-12)
    np.testing.assert_allclose(train.tensor.sum(1), ours.sum(axis=1), atol=1e-9)


def test_standardized_by_the_training_people(train, test):
    np.testing.assert_allclose(train.tensor.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(train.tensor.std(0), 1, atol=1e-12)
    # The first of the test people is 25 years old; training people 38.58 with deviation 13.64.
    assert column(test, "age")[0] == pytest.approx((25 - 38.5816) / 13.6402, abs=1e-4)


def test_neither_feature_nor_target_nor_weight_is_a_column(train):
    origins = {name.partition("_")[0] for name in train.labels[1].tolist()}
    assert origins == {
        *("age", "education-num", "capital-gain", "capital-loss", "hours-per-week", "workclass"),
        *("education", "marital-status", "occupation", "relationship", "native-country"),
    }
    assert "workclass_?" in train.labels[1]
    assert "native-country_Holand-Netherlands" not in train.labels[1]


def test_all_people_are_those_of_both_files(small_adult):
    parts = [datasets.adult(small_adult, subset=subset) for subset in ("train", "test")]
    together = datasets.adult(small_adult, subset="all")
    np.testing.assert_array_equal(together.tensor, np.vstack([part.tensor for part in parts]))
    assert together.target.tolist() == [value for part in parts for value in part.target]
    assert together.target.index.equals(together.sensitive_features.index)
    assert together.sensitive_features.columns.tolist() == ["sex", "race"]


def test_categories_unknown_to_the_training_people_are_zeros(small_adult, change):
    before = datasets.adult(small_adult, subset="test")
    change("adult.test", "Private", "Never-worked")
    after = datasets.adult(small_adult, subset="test")
    assert "workclass_Never-worked" not in after.labels[1]
    name = "workclass_Private"
    (person,) = np.flatnonzero(column(before, name) != column(after, name))
    assert column(after, name)[person] == column(after, name).min()
    assert (before.tensor != after.tensor).sum() == 1


def test_comments_blank_lines_and_line_endings_do_not_matter(small_adult):
    # The archive has them; other copies do not.
    expected = datasets.adult(small_adult, subset="test")
    path = small_adult / "adult" / "adult.test"
    text = path.read_text().removeprefix("|1x3 Cross validator\n").rstrip()
    path.write_bytes(text.replace("\n", "\r\n").encode())
    found = datasets.adult(small_adult, subset="test")
    np.testing.assert_array_equal(found.tensor, expected.tensor)
    assert found.target.tolist() == expected.target.tolist()


@pytest.fixture
def change(small_adult):
    """Replace the first occurrence of a text in a file."""

    def replace(name, old, new):
        path = small_adult / "adult" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return replace


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "adult.data",
            "Private, ",
            "",
            r"adult.data, row \d+: expected 15 values .* got 14; get it",
        ),
        ("adult.data", "Male", "male", "column sex: values must be Female, Male; got 'male'"),
        ("adult.data", "White", "?", "column race: values must be Amer.*; got '[?]'"),
        ("adult.test", "<=50K", "50K", "column income: values must be <=50K, >50K; got '50K'"),
        ("adult.data", ", 40,", ", forty,", "hours-per-week: values must be whole .* got 'forty'"),
    ],
)
def test_changed_files_are_refused(small_adult, change, name, old, new, message):
    change(name, old, new)
    with pytest.raises(ValueError, match=message):
        datasets.adult(small_adult)


def test_missing_rows_are_refused(small_adult):
    path = small_adult / "adult" / "adult.data"
    path.write_text(path.read_text().partition("\n")[2])
    with pytest.raises(ValueError, match="adult.data must have 40 rows, got 39; get it again from"):
        datasets.adult(small_adult)


def test_other_values_get_a_warning(real_data, tmp_path):
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        text = (real_data / "adult" / name).read_text()
        (tmp_path / "adult" / name).write_text(text.replace("39, State-gov", "38, State-gov", 1))
    with pytest.warns(ParafairWarning, match="its values differ from the copy that this loader"):
        datasets.adult(tmp_path)


def test_an_unknown_subset_is_refused_before_any_file_is_read(tmp_path):
    with pytest.raises(ValueError, match="subset must be one of train, test, all; got 'tset'"):
        datasets.adult(tmp_path / "nowhere", subset="tset")
