import pandas as pd
import pytest

from parafair import ParafairWarning, datasets
from parafair.datasets import oulad as load
from parafair.datasets.oulad import _last_attempts, _people, _places

NAMES = ("assessments", "studentAssessment", "studentInfo")


@pytest.fixture(scope="module")
def data(real_data):
    return datasets.oulad(real_data)


def test_the_size_is_the_published_one(data):
    assert data.tensor.shape == (23369, 7, 14)
    assert data.tensor.modes == data.modes == ("student", "module", "assessment")
    assert data.labels[1].tolist() == ["AAA", "BBB", "CCC", "DDD", "EEE", "FFF", "GGG"]
    assert data.labels[2].tolist() == list(range(1, 15))
    # 173739 scores, less those of earlier attempts.
    assert data.tensor.observed == 170845
    assert (data.tensor.observed_per("student") == 0).sum() == 18
    assert 0 <= data.tensor.entries.min() < data.tensor.entries.max() <= 100


def test_a_score_of_40_is_a_pass(data, real_data):
    passed = datasets.oulad(real_data, values="passed")
    assert passed.tensor.shape == data.tensor.shape
    assert (passed.tensor.cells == data.tensor.cells).all()
    assert ((data.tensor.entries >= 40) == (passed.tensor.entries == 1)).all()
    assert set(passed.tensor.entries.unique().tolist()) == {0, 1}
    assert float(passed.tensor.entries.mean()) == pytest.approx(0.958, abs=0.001)
    assert passed.labels[0].tolist() == data.labels[0].tolist()


def test_other_values_are_refused_before_any_file_is_read():
    with pytest.raises(ValueError, match="values must be one of scores, passed"):
        datasets.oulad("nowhere", values="clicks")


def test_course_taking_leaks_gender(data):
    table = data.tensor.to_table()[["student", "module"]].drop_duplicates()
    men = (data.sensitive_features["gender"].loc[table["student"]] == "M").to_numpy()
    share = table.assign(men=men).groupby("module")["men"].mean()
    assert share.min() == pytest.approx(0.11, abs=0.02)
    assert share.max() == pytest.approx(0.88, abs=0.02)


def test_people_are_in_the_order_of_the_tensor(data):
    assert data.sensitive_features.index.tolist() == data.labels[0].tolist()
    assert list(data.sensitive_features) == [
        "gender",
        "age_band",
        "disability",
        "imd_band",
        "region",
    ]
    assert data.sensitive_features.isna().sum().to_dict() == {
        "gender": 0, "age_band": 0, "disability": 0, "imd_band": 881, "region": 0
    }  # fmt: skip
    assert "20-Oct" not in set(data.sensitive_features["imd_band"])
    assert data.sensitive_features["imd_band"].nunique() == 10


def test_assessments_are_numbered_by_date_and_exams_without_a_date_are_last():
    table = pd.DataFrame(
        {
            "code_module": ["A", "A", "A", "B"],
            "code_presentation": ["2013J"] * 4,
            "id_assessment": [1, 2, 3, 4],
            "date": [float("nan"), 50, 20, 10],
        }
    )
    placed = _places(table).set_index("id_assessment")["assessment"]
    assert placed.to_dict() == {3: 1, 2: 2, 1: 3, 4: 1}


def test_the_last_presentation_with_a_score_counts():
    nothing = float("nan")
    rows = [
        (1, "A", "2013B", 1, 40), (1, "A", "2013B", 2, 50), (1, "A", "2013J", 1, 60),
        (1, "B", "2013B", 1, 70),
        (2, "A", "2013B", 1, 80), (2, "A", "2014B", 1, nothing),
        (3, "A", "2013B", 1, nothing),
    ]  # fmt: skip
    columns = ["id_student", "code_module", "code_presentation", "assessment", "score"]
    kept = _last_attempts(pd.DataFrame(rows, columns=columns)).dropna()
    assert kept[["student", "module", "assessment", "score"]].to_numpy().tolist() == [
        [1, "A", 1, 60], [1, "B", 1, 70], [2, "A", 1, 80]
    ]  # fmt: skip


def test_the_latest_attributes_count():
    rows = [(1, "A", "2014J", "35-55"), (1, "B", "2013B", "0-35"), (2, "A", "2013B", None)]
    info = pd.DataFrame(
        rows, columns=["id_student", "code_module", "code_presentation", "age_band"]
    )
    people = _people(info.assign(gender="F", disability="N", imd_band="0-10%", region="Wales"))
    assert people["age_band"].to_dict() == {1: "35-55", 2: None}


@pytest.fixture
def copy(real_data, tmp_path):
    """Copy the files with one of them changed, and return their folder."""

    def write(name, change):
        (tmp_path / "oulad").mkdir()
        for file in NAMES:
            text = (real_data / "oulad" / f"{file}.csv").read_text()
            (tmp_path / "oulad" / f"{file}.csv").write_text(change(text) if file == name else text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("assessments", lambda t: t.replace('"date"', '"day"'), "lacks the columns date; get it"),
        ("studentInfo", lambda t: t[:-200], "studentInfo.csv must have 32593 rows, got 3259"),
        ("studentInfo", lambda t: t.replace(",0-10%,", ",0-15%,", 1), "imd_band: .* got '0-15%'"),
        (
            "studentAssessment",
            lambda t: t.replace(",0,78\n", ",0,780\n", 1),
            "column score: values must be 0 to 100; got '780.0'; get it again",
        ),
        (
            "studentAssessment",
            lambda t: t.replace(",0,78\n", ",0,good\n", 1),
            "column score: values must be 0 to 100; got 'good'; get it again",
        ),
    ],
)
def test_changed_files_are_refused(copy, name, change, message):
    folder = copy(name, change)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_other_values_get_a_warning(copy):
    folder = copy("studentAssessment", lambda t: t.replace(",0,78\n", ",0,77\n", 1))
    with pytest.warns(
        ParafairWarning, match="its values differ from the copy used for the published results"
    ):
        load(folder)


def test_packaging_does_not_matter(copy):
    # The archive marks missing values by ? and has no sign in one band.
    def change(text):
        text = text.replace(",20-Oct,", ",10-20,")
        return text.replace(",HE Qualification,,", ",HE Qualification,?,")

    assert load(copy("studentInfo", change)).tensor.observed == 170845
