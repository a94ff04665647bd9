import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, ParafairWarning, TensorData
from tests.cli.conftest import FIT, FIT_SCORES, PEOPLE, STUDENTS, run, shuffle_people

MODES = ["student", "module", "test"]


def test_predictions_of_any_cells(tables):
    run(*FIT_SCORES, "--method", "none")
    cells = pd.DataFrame({"note": ["x", "y"], "test": [2, 1], "student": ["s01", "s39"]})
    cells.assign(module=["art", "music"]).to_csv("cells.csv", index=False)
    predict = ("predict", "run", "cells.csv", "--out", "out.csv")
    assert "2 predictions written to out.csv" in run(*predict)
    found = pd.read_csv("out.csv")
    assert list(found.columns) == ["note", "test", "student", "module", "prediction"]
    expected = FairCP.load("run").predict(found[MODES])
    np.testing.assert_allclose(found["prediction"], expected)
    assert "already exists; choose another file, or overwrite it with --force" in run(
        *predict, code=2
    )
    run(*predict, "--force", "--column", "guess")
    assert "guess" in pd.read_csv("out.csv")
    run("predict", "run", "out.csv", "--out", "two.csv")
    assert "has a column 'guess'; choose another name with --column" in run(
        "predict", "run", "out.csv", "--out", "three.csv", "--column", "guess", code=2
    )
    assert sorted(p.name for p in tables.iterdir() if p.name.startswith(".")) == []


def test_unseen_labels_are_named_with_the_nearest(tables):
    run(*FIT_SCORES, "--method", "none")
    (tables / "cells.csv").write_text("student,module,test\ns01,algebre,1\n")
    text = run("predict", "run", "cells.csv", "--out", "out.csv", code=2)
    assert "cells.csv: mode 'module' has no label algebre" in text
    assert "did you mean 'algebra'?" in text
    (tables / "cells.csv").write_text("student,modul,test\ns01,algebra,1\n")
    text = run("predict", "run", "cells.csv", "--out", "out.csv", code=2)
    assert "did you mean 'modul'?" in text
    text = run("predict", "run", "cells.csv", "--out", "out.txt", code=2)
    assert "the ending of --out must be one of csv, parquet; got 'txt'" in text
    text = run("predict", "nowhere", "cells.csv", "--out", "out.csv", code=2)
    assert "give the folder of a saved run" in text
    assert not (tables / "out.csv").exists()


def test_cells_of_a_model_without_labels_are_positions(working):
    values = np.random.default_rng(0).random((6, 5))
    model = FairCP(2, method="none").fit(values)
    model.save("run")
    pd.DataFrame({"mode_0": [0, 5], "mode_1": [1, 4]}).to_csv("cells.csv", index=False)
    run("predict", "run", "cells.csv", "--out", "out.csv")
    expected = model.predict([[0, 1], [5, 4]])
    np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], expected)


def split_students():
    """Leave the first 30 students in scores.csv; write the others to new.csv."""
    table = pd.read_csv("scores.csv")
    old = table["student"] < "s30"
    table[old].to_csv("scores.csv", index=False)
    table[~old].to_csv("new.csv", index=False)


def test_new_people_are_embedded(tables):
    split_students()
    run(*FIT_SCORES, "--method", "none")
    assert "embeddings of 10 people" in run("transform", "run", "new.csv", "--out", "new_rows.csv")
    found = pd.read_csv("new_rows.csv")
    assert found["student"].tolist() == STUDENTS[30:]
    model = FairCP.load("run")
    labels = {name: model.training_.labels[i] for i, name in ((1, "module"), (2, "test"))}
    data = TensorData.from_table("new.csv", modes=MODES, value="score", labels=labels)
    np.testing.assert_allclose(found.iloc[:, 1:], model.transform(data))
    # Columns in another order are the same modes; other names are taken in order.
    run("transform", "run", "new.csv", "--modes", "test,student,module", "--value", "score",
        "--out", "two.csv")  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_csv("two.csv"), found)
    new = pd.read_csv("new.csv").rename(columns={"student": "who"})
    new.to_csv("new.csv", index=False)
    run("transform", "run", "new.csv", "--modes", "who,module,test", "--out", "three.csv")
    pd.testing.assert_frame_equal(pd.read_csv("three.csv"), found)


def test_an_encoder_needs_no_table_of_people(arrays):
    run(*FIT, *PEOPLE, "--method", "fair-pca")
    np.save("new.npy", np.load("tensor.npy")[:10])
    text = run("transform", "run", "new.npy", "--out", "rows.csv")
    assert "Warning" not in text
    expected = pd.read_csv("run/embedding.csv").iloc[:10, 1:]
    pd.testing.assert_frame_equal(pd.read_csv("rows.csv").iloc[:, 1:], expected)


def test_new_people_of_an_array_are_embedded_in_its_order(arrays):
    run(*FIT, *PEOPLE, "--strength", 0.1)
    np.save("new.npy", np.load("tensor.npy")[:10])
    pd.read_csv("people.csv").iloc[:10].to_csv("new.csv", index=False)
    run("transform", "run", "new.npy", "--sensitive", "new.csv", "--out", "rows.csv")
    features = pd.read_csv("new.csv")[["group"]]
    expected = FairCP.load("run").transform(np.load("new.npy"), sensitive_features=features)
    np.testing.assert_allclose(pd.read_csv("rows.csv").iloc[:, 1:], expected)


@pytest.mark.parametrize("refine", [False, True])
def test_new_people_are_embedded_with_the_criterion(tables, refine):
    split_students()
    # Both genders among the new people, whom a refinement compares.
    people = pd.read_csv("students.csv").sort_values("student")
    people["gender"] = ["f", "m"] * 20
    people.to_csv("students.csv", index=False)
    run(*FIT_SCORES, "--strength", 0.1)
    people = ("--sensitive", "students.csv", "--key", "student")
    options = ("--refine",) if refine else ()
    text = run("transform", "run", "new.csv", *people, *options, "--out", "rows.csv")
    assert "Warning" not in text
    model = FairCP.load("run")
    data = TensorData.from_table("new.csv", modes=MODES, value="score")
    table = pd.read_csv("students.csv").set_index("student").loc[data.labels[0]]
    expected = model.transform(data, sensitive_features=table[["gender"]], refine=refine)
    np.testing.assert_allclose(pd.read_csv("rows.csv").iloc[:, 1:], expected)


def test_people_of_new_entries_are_checked(tables):
    run(*FIT_SCORES, "--strength", 0.1)
    pd.read_csv("scores.csv").replace({"s39": "s40"}).to_csv("new.csv", index=False)
    transform = ("transform", "run", "new.csv", "--out", "rows.csv")
    text = run(*transform, code=2)
    assert "the run of method invariant has no encoder" in text
    assert "or accept it with --allow-leak" in text
    assert "so their rows may reveal" in run(*transform, "--allow-leak")
    people = ("--sensitive", "students.csv", "--key", "student", "--force")
    text = run(*transform, *people, code=2)
    assert "students.csv: table has no row for 1 of 40 people, such as student s40" in text
    table = pd.read_csv("students.csv").replace({"s39": "s40"})
    table.assign(gender=table["gender"].where(table["student"] != "s05")).to_csv(
        "students.csv", index=False
    )
    text = run(*transform, *people, code=2)
    assert "sensitive feature 'gender' has 1 missing values (student s05)" in text
    # Those without features are embedded by their entries alone.
    text = run(*transform, *people, "--missing", "exclude")
    assert "1 of 40 new people lack sensitive features (s05)" in text
    rows = pd.read_csv("rows.csv").set_index("student")
    model = FairCP.load("run")
    data = TensorData.from_table("new.csv", modes=MODES, value="score")
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        plain = model.transform(data)
    same = np.isclose(rows, plain).all(1)
    assert rows.index[same].tolist() == ["s05"]
    table.assign(student="x" + table["student"]).to_csv("students.csv", index=False)
    text = run(*transform, *people, "--missing", "exclude", code=2)
    assert "students.csv has no features of any new person; check --sensitive and --key" in text
    table.drop(columns="gender").to_csv("students.csv", index=False)
    assert "students.csv has no column 'gender'" in run(*transform, *people, code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--key", "student"),
            "--key and --missing need the table of people, but it was not given; add --sensitive",
        ),
        (("--refine", "--allow-leak"), "--refine needs --sensitive of the new people"),
        (("--modes", "student,module"), "scores.csv has 2 modes but the model has 3"),
    ],
)
def test_wrong_options_for_new_people_are_refused(tables, arguments, message):
    run(*FIT_SCORES, "--strength", 0.1)
    if "--modes" in arguments:
        arguments = (*arguments, "--duplicates", "mean")
    text = run("transform", "run", "scores.csv", "--out", "rows.csv", *arguments, code=2)
    assert message in text
    assert not (tables / "rows.csv").exists()


def test_new_people_are_found_by_the_key_of_the_run(tables):
    shuffle_people()
    run(*FIT_SCORES, "--strength", 0.1)
    new = ("transform", "run", "scores.csv", "--sensitive")
    run(*new, "students.csv", "--key", "student", "--out", "one.csv")
    run(*new, "students.csv", "--out", "two.csv")
    assert (tables / "one.csv").read_text() == (tables / "two.csv").read_text()
    text = run(*new, "unnamed.csv", "--out", "three.csv", code=2)
    assert "--key is missing; give the column of unnamed.csv that has the labels of mode" in text


@pytest.mark.parametrize("whole", [True, False])
def test_codes_of_new_people_may_be_whole_floats(tables, whole):
    people = pd.read_csv("students.csv")
    people["gender"] = (people["gender"] == "m").astype(int if whole else float)
    people.to_csv("students.csv", index=False)
    run(*FIT_SCORES, "--strength", 0.1)
    people["gender"] = people["gender"].astype(float if whole else int)
    people.to_csv("students.csv", index=False)
    run("transform", "run", "scores.csv", "--sensitive", "students.csv", "--key", "student",
        "--out", "rows.csv")  # fmt: skip
