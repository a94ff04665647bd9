import pandas as pd
import pytest

from parafair import FairCP, TensorData
from tests.cli.conftest import MODES, SMALL, run

OUT = ("--out", "lists.csv")


@pytest.fixture
def fitted(tables):
    run("fit", "scores.csv", *MODES, *SMALL, "--method", "none", "--ridge", 1, "--out", "run")
    return tables


def test_recommendations_are_written_as_a_table(fitted):
    text = run("recommend", "run", "--person", "s03", "--person", "s07", "--k", 2, *OUT)
    assert "4 recommendations written to lists.csv" in text
    found = pd.read_csv("lists.csv")
    assert list(found.columns) == ["student", "rank", "module", "test", "score"]
    assert list(found["student"]) == ["s03", "s03", "s07", "s07"]
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    expected = FairCP.load("run").recommend(["s03", "s07"], 2, exclude=data).to_frame()
    pd.testing.assert_frame_equal(found, expected)
    both = found.merge(pd.read_csv("scores.csv"), on=["student", "module", "test"])
    assert not len(both)


def test_one_mode_can_be_fixed_and_rated_cells_included(fitted):
    run("recommend", "run", "--given", "test=2", "--k", 4, "--include-rated", *OUT)
    found = pd.read_csv("lists.csv")
    assert list(found.columns) == ["student", "rank", "module", "score"]
    assert len(found) == 4 * 40
    run("recommend", "run", "--person", "zoe", "--k", 1, "--unknown", "offsets", *OUT, "--force")
    assert list(pd.read_csv("lists.csv")["student"]) == ["zoe"]


def test_unknown_labels_can_be_predicted(fitted):
    cells = pd.DataFrame({"student": ["zoe"], "module": ["art"], "test": [1]})
    cells.to_csv("cells.csv", index=False)
    text = run("predict", "run", "cells.csv", "--out", "p.csv", code=2)
    assert "mode 'student' has no label zoe" in text
    run("predict", "run", "cells.csv", "--unknown", "offsets", "--out", "p.csv")
    model = FairCP.load("run")
    assert pd.read_csv("p.csv")["prediction"][0] == pytest.approx(
        model.predict(cells, unknown="offsets")[0]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--person", "nobody"), "mode 'student' has no label nobody"),
        (("--k", 0), "k must be a whole number of at least 1, got 0"),
        (("--k", 9), "k must be at most 8, the number of module x test, got 9"),
        (("--given", "test"), "an equals sign and a label, got 'test'"),
        (("--exclude", "nothing.csv"), "--exclude, nothing.csv, does not exist in the folder"),
        (
            ("--exclude", "scores.csv", "--include-rated"),
            "--include-rated and --exclude cannot both",
        ),
        (("--unknown", "zero"), "unknown must be one of error, offsets"),
    ],
)
def test_bad_options_are_refused(fitted, arguments, message):
    text = run("recommend", "run", *arguments, *OUT, code=2)
    assert message in text.partition("Error:")[2]
    assert not (fitted / "lists.csv").exists()


def test_data_that_was_moved_is_asked_for(fitted):
    (fitted / "scores.csv").rename(fitted / "moved.csv")
    text = run("recommend", "run", *OUT, code=2)
    assert f"the data of the run, scores.csv, does not exist in the folder {fitted}" in text
    run("recommend", "run", "--k", 1, "--exclude", "moved.csv", *OUT)


def test_another_file_of_the_same_name_is_not_taken_for_the_data_of_the_run(fitted, monkeypatch):
    elsewhere = fitted / "elsewhere"
    elsewhere.mkdir()
    lines = (fitted / "scores.csv").read_text().splitlines(keepends=True)
    (elsewhere / "scores.csv").write_text("".join(lines[:-5]))
    monkeypatch.chdir(elsewhere)
    text = run("recommend", "../run", *OUT, code=2)
    assert f"scores.csv in the folder {elsewhere} is not the data of the run" in text
    assert "with --exclude, or add --include-rated" in text
    assert not (elsewhere / "lists.csv").exists()
    run("recommend", "../run", "--k", 1, "--exclude", "../scores.csv", *OUT)
