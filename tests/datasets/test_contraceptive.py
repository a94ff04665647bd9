import numpy as np
import pytest

from parafair import datasets


@pytest.fixture
def table(real_data):
    """The rows of the real file."""
    return (real_data / "cmc" / "cmc.data").read_text().splitlines()


@pytest.fixture
def write(tmp_path):
    """Write rows as the file of a data folder, and return that folder."""

    def write_rows(rows, ending="\n"):
        (tmp_path / "cmc").mkdir()
        (tmp_path / "cmc" / "cmc.data").write_bytes(ending.join(rows).encode())
        return tmp_path

    return write_rows


def test_the_data_is_that_of_the_paper(real_data):
    data = datasets.contraceptive(real_data)
    assert data.tensor.shape == (1473, 9)
    assert data.tensor.dtype == np.float64
    assert data.tensor[0].tolist() == [24, 2, 3, 3, 1, 2, 3, 0, 1]
    assert data.modes == ("woman", "answer")
    assert data.labels[1][0] == "wife_age"
    assert data.labels[1][-1] == "contraception"
    assert "wife_working" not in data.labels[1]
    assert [len(labels) for labels in data.labels] == [1473, 9]


def test_most_women_do_not_work(real_data):
    # The description of the data: 0 = yes, 1 = no. The paper has it the other way around.
    data = datasets.contraceptive(real_data)
    assert data.sensitive_features[0] == "not working"
    assert (data.sensitive_features == "not working").mean() == pytest.approx(0.7495, abs=1e-4)
    assert "the paper swaps the two labels" in data.about


def test_indicators_are_answers_above_thresholds(real_data):
    answers, found = (
        datasets.contraceptive(real_data, values=values) for values in ("answers", "indicators")
    )
    assert found.tensor.shape == (1473, 21)
    assert set(np.unique(found.tensor)) == {0, 1}
    for label, column in zip(found.labels[1], found.tensor.T, strict=True):
        name, cut = label.split(">")
        (place,) = np.flatnonzero(answers.labels[1] == name)
        np.testing.assert_array_equal(column, answers.tensor[:, place] > int(cut))
        assert 0 < column.mean() < 1
    uses = found.tensor[:, found.labels[1].tolist().index("contraception>1")]
    assert uses.mean() == pytest.approx(0.573, abs=1e-3)
    np.testing.assert_array_equal(found.sensitive_features, answers.sensitive_features)


def test_other_values_are_refused_before_any_file_is_read():
    with pytest.raises(ValueError, match="values must be one of answers, indicators"):
        datasets.contraceptive("nowhere", values="binary")


def test_line_endings_do_not_matter(table, write, real_data):
    folder = write([*table, ""], "\r\n")
    expected = datasets.contraceptive(real_data)
    np.testing.assert_array_equal(datasets.contraceptive(folder).tensor, expected.tensor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "must have 1473 lines, got 1472; get the file again from https"),
        (lambda rows: [], "must have 1473 lines, got 0"),
        (lambda rows: [row[:-2] for row in rows], "line 1: expected 10 values .* got 9"),
        (lambda rows: ["a" + rows[0], *rows[1:]], "must hold whole numbers only"),
        (
            lambda rows: ["25" + rows[0][2:], *rows[1:]],
            "has the expected form, but different values",
        ),
        (lambda rows: [rows[0][:-1] + "4", *rows[1:]], r"column 9 \(contraception\).* 1 to 4"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "has the expected form, but different values"),
    ],
)
def test_changed_files_are_refused(table, write, change, message):
    folder = write(change(table))
    with pytest.raises(ValueError, match=message):
        datasets.contraceptive(folder)
