"""Tables in the shell: entries and people in, labels in every output."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, ParafairWarning, SensitiveFeatures, TensorData, split_cells, tune
from parafair.audits.evaluation import evaluate_predictions
from parafair.frontiers.folder import load

pytest.importorskip("typer")
from tests.cli.test_commands import run

STUDENTS, MODULES = [f"s{i:02}" for i in range(40)], ["algebra", "art", "biology", "music"]
TABLE = ("--modes", "student,module,test", "--value", "score")
PEOPLE = ("--sensitive", "students.csv", "--sensitive-columns", "gender", "--key", "student")
MODEL = ("--rank", 2, "--center", "--max-iter", 20, "--tol", 1e-2)
FIT = ("fit", "scores.csv", *TABLE, *PEOPLE, *MODEL, "--out", "run")


def make_tables():
    """Scores of 40 students, about half of them there, and a table of the students."""
    random = np.random.default_rng(0)
    gender = np.repeat(["f", "m"], 20)
    ability = random.normal(size=(40, 2)) + np.outer(gender == "m", [0, 1.5])
    taste = random.normal(size=(4, 2))
    scores = 60 + 10 * np.einsum("ir,jr->ij", ability, taste)[:, :, None] + 3 * np.arange(2)
    scores = scores + random.normal(scale=2, size=scores.shape)
    i, j, k = np.nonzero(random.random(scores.shape) < 0.6)
    table = pd.DataFrame(
        {
            "student": np.array(STUDENTS)[i],
            "module": np.array(MODULES)[j],
            "test": k + 1,
            "score": scores[i, j, k].round(1),
        }
    )
    people = pd.DataFrame({"student": STUDENTS, "gender": gender, "age": np.arange(40) % 25 + 18})
    return table, people.sample(frac=1, random_state=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    table, people = make_tables()
    table.to_csv("scores.csv", index=False)
    people.to_csv("students.csv", index=False)
    return tmp_path


def read_python():
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    people = SensitiveFeatures.from_table(
        "students.csv", ["gender"], key="student", labels=data.labels[0]
    )
    return data, people


def test_a_run_from_the_shell_equals_the_same_run_from_python(folder):
    printed = run(*FIT, "--strength", 0.5, "--test", 0.2, "--seed", 3, "--ridge", 0.2)
    data, people = read_python()
    split = split_cells(data, test_size=0.2, random_state=3)
    settings = {"max_iter": 20, "tol": 1e-2, "center": True, "random_state": 3}
    model = FairCP(2, strength=0.5, ridge=0.2, mode="student", **settings)
    model.fit(split.train, sensitive_features=people)
    loaded = FairCP.load("run")
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    cells = split.test.cells.T.numpy()
    np.testing.assert_array_equal(loaded.predict(cells), model.predict(cells))
    errors = evaluate_predictions(split.test, model.predict(cells), sensitive_features=people)
    record = json.loads((folder / "run" / "evaluation.json").read_text())
    assert record["scores"] == errors.to_list()
    assert f"{errors.value('rmse', 'f', feature='gender'):.4g}" in printed
    assert record["baseline"][0]["value"] > record["scores"][0]["value"]


def test_labels_survive_to_every_file(folder):
    run(*FIT, "--method", "none")
    embedding = pd.read_csv("run/embedding.csv")
    assert embedding["student"].tolist() == STUDENTS
    module = pd.read_csv("run/factor_module.csv")
    assert module["module"].tolist() == MODULES
    assert pd.read_csv("run/factor_test.csv")["test"].tolist() == [1, 2]
    np.testing.assert_allclose(module.iloc[:, 1:], FairCP.load("run").cp_.factors[1])
    run(*FIT, "--method", "none", "--force")  # its own files do not protect a run


def test_a_mode_that_is_no_file_name_gets_its_number(folder):
    table = pd.read_csv("scores.csv").rename(columns={"module": "../module"})
    table.to_csv("scores.csv", index=False)
    modes = ("--modes", "student,../module,test", "--value", "score")
    run("fit", "scores.csv", *modes, *PEOPLE, *MODEL, "--method", "none", "--out", "run")
    assert pd.read_csv("run/factor_1.csv")["../module"].tolist() == MODULES


def test_people_are_found_by_key_in_any_mode(folder):
    modes = ("--modes", "module,student,test", "--value", "score")
    run("fit", "scores.csv", *modes, *PEOPLE, *MODEL, "--out", "run")
    assert FairCP.load("run").training_.mode == 1
    people = pd.read_csv("students.csv").rename(columns={"student": "id"})
    people.to_csv("students.csv", index=False)
    other = (*PEOPLE[:-1], "id", "--mode", "student")
    run("fit", "scores.csv", *modes, *other, *MODEL, "--out", "other")
    first, second = (pd.read_csv(f"{name}/embedding.csv") for name in ("run", "other"))
    pd.testing.assert_frame_equal(first, second)
    run("audit", "other", "--sensitive", "students.csv", "--columns", "gender", "--key", "id",
        "--attackers", "linear")  # fmt: skip


def test_all_forms_of_the_data_give_the_same_run(folder):
    data, _ = read_python()
    indices = data.cells.T.numpy() + 1
    lines = [
        " ".join(map(str, [*i, v])) for i, v in zip(indices, data.entries.tolist(), strict=True)
    ]
    (folder / "scores.tns").write_text("\n".join(lines) + "\n")
    np.save("scores.npy", data.to_dense().values.numpy())
    people = pd.read_csv("students.csv").sort_values("student")
    people.assign(student=range(1, 41)).to_csv("numbered.csv", index=False)
    people.to_csv("students.csv", index=False)
    run(*FIT, "--method", "none")
    run("fit", "scores.npy", *PEOPLE, *MODEL, "--method", "none", "--out", "array")
    numbered = ("--sensitive", "numbered.csv", "--columns", "gender", "--key", "student")
    run("fit", "scores.tns", "--modes", "student,module,test", *numbered, *MODEL,
        "--method", "none", "--out", "list")  # fmt: skip
    expected = pd.read_csv("run/embedding.csv")
    pd.testing.assert_frame_equal(pd.read_csv("array/embedding.csv"), expected, rtol=1e-6)
    found = pd.read_csv("list/embedding.csv")
    assert found["student"].tolist() == list(range(1, 41))
    np.testing.assert_allclose(found.iloc[:, 1:], expected.iloc[:, 1:], rtol=1e-6)


def test_parquet_in_and_out(folder):
    pytest.importorskip("pyarrow")
    pd.read_csv("scores.csv").to_parquet("scores.parquet")
    run("fit", "scores.parquet", *TABLE, *PEOPLE, *MODEL, "--method", "none", "--out", "run",
        "--format", "parquet")  # fmt: skip
    assert pd.read_parquet("run/factor_module.parquet")["module"].tolist() == MODULES


def test_people_who_are_not_known_are_fitted_and_left_out(folder):
    people = pd.read_csv("students.csv").sort_values("student")
    people.loc[people["student"] == "s03", "gender"] = None
    people[people["student"] != "s07"].to_csv("students.csv", index=False)
    assert "no row for 1 of 40 people, such as student s07" in run(*FIT, code=2)
    assert "2 of 40 people are not known (s03, s07)" in run(*FIT, "--missing", "exclude")
    assert len(pd.read_csv("run/embedding.csv")) == 40
    _, everybody = make_tables()
    everybody.to_csv("students.csv", index=False)
    audit = ("audit", "run", "--sensitive", "students.csv", "--columns", "gender", "--key",
             "student", "--attackers", "linear")  # fmt: skip
    assert "left out: 2 of 40 people, whom the run did not examine" in run(*audit)
    everybody.iloc[:-3].to_csv("students.csv", index=False)
    assert "no row for" in run(*audit, code=2)
    assert "of whom something is not known" in run(*audit, "--missing", "exclude")
    assert "people, of whom something" in run(*audit, "--missing", "exclude", "--target", "age")


def test_predictions_of_any_cells(folder):
    run(*FIT, "--method", "none")
    cells = pd.DataFrame({"note": ["x", "y"], "test": [2, 1], "student": ["s01", "s39"]})
    cells.assign(module=["art", "music"]).to_csv("cells.csv", index=False)
    predict = ("predict", "run", "cells.csv", "--out", "out.csv")
    assert "2 predictions" in run(*predict)
    found = pd.read_csv("out.csv")
    assert list(found.columns) == ["note", "test", "student", "module", "prediction"]
    expected = FairCP.load("run").predict(found[["student", "module", "test"]])
    np.testing.assert_allclose(found["prediction"], expected)
    assert "already exists; choose another file, or use --force" in run(*predict, code=2)
    run(*predict, "--force", "--column", "guess")
    assert "guess" in pd.read_csv("out.csv")
    run("predict", "run", "out.csv", "--out", "two.csv")
    assert "has a column 'guess'" in run(
        "predict", "run", "out.csv", "--out", "three.csv", "--column", "guess", code=2
    )
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


def test_unseen_labels_are_named_with_the_nearest(folder):
    run(*FIT, "--method", "none")
    (folder / "cells.csv").write_text("student,module,test\ns01,algebre,1\n")
    text = run("predict", "run", "cells.csv", "--out", "out.csv", code=2)
    assert "cells.csv: mode 'module' has no label algebre" in text
    assert "did you mean 'algebra'?" in text
    (folder / "cells.csv").write_text("student,modul,test\ns01,algebra,1\n")
    text = run("predict", "run", "cells.csv", "--out", "out.csv", code=2)
    assert "did you mean 'modul'?" in text
    text = run("predict", "run", "cells.csv", "--out", "out.txt", code=2)
    assert "the ending of --out must be one of csv, parquet; got 'txt'" in text
    text = run("predict", "nowhere", "cells.csv", "--out", "out.csv", code=2)
    assert "give the folder of a saved run" in text
    assert not (folder / "out.csv").exists()


def test_new_people_are_embedded(folder):
    table = pd.read_csv("scores.csv")
    old = table["student"] < "s30"
    table[old].to_csv("scores.csv", index=False)
    table[~old].to_csv("new.csv", index=False)
    run(*FIT, "--method", "none")
    assert "embeddings of 10 people" in run("transform", "run", "new.csv", "--out", "new_rows.csv")
    found = pd.read_csv("new_rows.csv")
    assert found["student"].tolist() == STUDENTS[30:]
    modes = {
        name: FairCP.load("run").training_.labels[i] for i, name in ((1, "module"), (2, "test"))
    }
    data = TensorData.from_table(
        "new.csv", modes=["student", "module", "test"], value="score", labels=modes
    )
    np.testing.assert_allclose(found.iloc[:, 1:], FairCP.load("run").transform(data))
    # Columns in another order are the same modes; other names are taken in order.
    run("transform", "run", "new.csv", "--modes", "test,student,module", "--value", "score",
        "--out", "two.csv")  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_csv("two.csv"), found)
    table[~old].rename(columns={"student": "who"}).to_csv("new.csv", index=False)
    run("transform", "run", "new.csv", "--modes", "who,module,test", "--out", "three.csv")
    pd.testing.assert_frame_equal(pd.read_csv("three.csv"), found)


def test_new_people_are_embedded_with_the_criterion(folder):
    table = pd.read_csv("scores.csv")
    old = table["student"] < "s30"
    table[old].to_csv("scores.csv", index=False)
    table[~old].to_csv("new.csv", index=False)
    run(*FIT, "--strength", 0.1)
    people = ("--sensitive", "students.csv", "--key", "student")
    text = run("transform", "run", "new.csv", *people, "--out", "rows.csv")
    assert "Warning" not in text
    modes = ["student", "module", "test"]
    model = FairCP.load("run")
    data = TensorData.from_table("new.csv", modes=modes, value="score")
    table = pd.read_csv("students.csv").set_index("student").loc[data.labels[0]]
    expected = model.transform(data, sensitive_features=table[["gender"]])
    np.testing.assert_allclose(pd.read_csv("rows.csv").iloc[:, 1:], expected)


def test_people_of_new_entries_are_checked(folder):
    run(*FIT, "--strength", 0.1)
    pd.read_csv("scores.csv").replace({"s39": "s40"}).to_csv("new.csv", index=False)
    transform = ("transform", "run", "new.csv", "--out", "rows.csv")
    assert "without regard to fairness, so these embeddings may reveal" in run(*transform)
    people = ("--sensitive", "students.csv", "--key", "student", "--force")
    text = run(*transform, *people, code=2)
    assert "has no row for 1 of 40 new people, such as student s40" in text
    table = pd.read_csv("students.csv").replace({"s39": "s40"})
    table.assign(gender=table["gender"].where(table["student"] != "s05")).to_csv(
        "students.csv", index=False
    )
    text = run(*transform, *people, code=2)
    assert "has no value for 1 of 40 new people, such as student s05" in text
    # Those who are not known are embedded by their entries alone.
    text = run(*transform, *people, "--missing", "exclude")
    assert "1 of 40 new people are not known (s05)" in text
    rows = pd.read_csv("rows.csv").set_index("student")
    model = FairCP.load("run")
    data = TensorData.from_table("new.csv", modes=["student", "module", "test"], value="score")
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        plain = model.transform(data)
    same = np.isclose(rows, plain).all(1)
    assert rows.index[same].tolist() == ["s05"]
    table.assign(student="x" + table["student"]).to_csv("students.csv", index=False)
    text = run(*transform, *people, "--missing", "exclude", code=2)
    assert "nothing is known of any of the new people" in text
    table.to_csv("students.csv", index=False)
    table.drop(columns="gender").to_csv("students.csv", index=False)
    assert "students.csv has no column 'gender'" in run(*transform, *people, code=2)


FRONTIER = (
    "frontier", "scores.csv", *TABLE, *PEOPLE, *MODEL, "--methods", "none,invariant",
    "--strengths", "0.3", "--attackers", "linear", "--out", "curve",
)  # fmt: skip


def test_a_frontier_of_a_table_has_errors_and_a_page(folder):
    people = pd.read_csv("students.csv")
    people.loc[people["student"] == "s03", "gender"] = None
    people.to_csv("students.csv", index=False)
    command = (*FRONTIER, "--test", 0.2, "--missing", "exclude")
    printed = run(*command)
    assert "RMSE" in printed
    assert "held-out entries; without people" in printed
    assert len(list(folder.glob("curve/*/*/evaluation.json"))) == 2
    assert "held_out: " in run(*FRONTIER, "--missing", "exclude", code=2)
    run("report", "curve")
    page = (folder / "curve" / "report.html").read_text()
    for text in ("student (people)", "algebra", "1 of 40 student", "fitted entries per student"):
        assert text in page


def test_a_picked_fit_becomes_a_run(folder):
    run(*FRONTIER)
    text = run("pick", "curve", "--leakage", 1, "--out", "run")
    assert "residual" in text
    model, labels = FairCP.load("run"), pd.read_csv(folder / "run" / "embedding.csv")["student"]
    curve = load("curve")
    np.testing.assert_array_equal(model.embedding_, curve.pick(leakage=1).embedding_)
    assert labels.tolist() == STUDENTS
    assert "already holds files" in run("pick", "curve", "--out", "run", code=2)
    assert "no point has leakage <= -2" in run(
        "pick", "curve", "--leakage", -2, "--out", "r", code=2
    )
    assert not (folder / "r").exists()
    # Later commands find people and entries as after `parafair fit`.
    run("predict", "run", "scores.csv", "--out", "predictions.csv")
    run("audit", "run", "--sensitive", "students.csv", "--columns", "gender",
        "--attackers", "linear")  # fmt: skip
    run("transform", "run", "scores.csv", "--out", "rows.csv")


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    return lambda: Path(name).write_bytes(data)


HEADER = "student,module,test,score\n"
ONE = f"{HEADER}s00,art,1,5\n"


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ("--modes", "studnet,module,test"), "scores.csv: a mode must be one of"),
        (None, ("--modes", "studnet,module,test"), "did you mean 'student'?"),
        (None, ("--modes", "student"), "modes must be at least 2 columns"),
        (None, ("--value", "scor"), "did you mean 'score'?"),
        (None, ("--sensitive-columns", "gendr"), "did you mean 'gender'?"),
        (None, ("--key", "studnt"), "did you mean 'student'?"),
        (None, ("--mode", "modul"), "did you mean 'module'?"),
        (None, ("--missing", "leave"), "missing must be one of error, exclude"),
        (None, ("--test", 1.5), "must be shares that leave something"),
        (None, ("--duplicates", "average"), "duplicates must be one of"),
        (None, ("--ridge", -1), "ridge must be"),
        (write("scores.csv", f"{ONE}s01,art,1,good\n"), (), "column 'score' must hold numbers"),
        (write("scores.csv", f"{ONE}s00,art,1,6\n"), (), "student s00, module art, test 1: 5, 6"),
        (write("scores.csv", f"{HEADER}s00,art,1,\ns01,art,1,\n"), (), "has no values"),
        (write("scores.csv", f"{ONE},art,1,6\n"), (), "rows without a label"),
        (write("scores.csv", ""), (), "scores.csv could not be read as a table"),
        (write("scores.csv", HEADER), (), "scores.csv holds no rows"),
        (write("scores.csv", b"student,module,test,score\ns\xff,art,1,5\n"), (), "UTF-8"),
        (write("students.csv", "student,gender\ns00,f\ns00,m\n"), (), "more than one row for"),
        (write("students.csv", "student,gender\ns00,f\ns01,m\n"), (), "no row for 38 of 40"),
        (write("students.csv", "student,gender\n"), (), "students.csv holds no rows"),
    ],
)
def test_bad_tables_get_one_clear_line(folder, change, arguments, message):
    if change is not None:
        change()
    text = run(*FIT, *arguments, code=2)
    assert text.count("Error:") == 1
    assert message in text.partition("Error:")[2]
    assert not (folder / "run").exists()


def test_people_without_a_key_are_refused(folder):
    text = run("fit", "scores.csv", *TABLE, "--sensitive", "students.csv", "--sensitive-columns",
               "gender", *MODEL, "--out", "run", code=2)  # fmt: skip
    assert "--key is missing: the column of students.csv that has the labels of mode" in text


def test_a_table_too_large_for_memory_is_refused(folder, monkeypatch):
    monkeypatch.setattr("parafair.data.frames.MEMORY_PER_BYTE_OF_TEXT", 10**12)
    text = run(*FIT, code=2)
    assert "GB of memory, but this machine has" in text


def test_duplicates_are_merged_as_stated(folder):
    with Path("scores.csv").open("a") as file:
        file.write("s00,art,1,10\ns00,art,1,30\n")
    run(*FIT, "--method", "none", "--duplicates", "last")
    assert json.loads((folder / "run" / "fit.json").read_text())["settings"]["inputs"] == {
        "tensor": "scores.csv", "modes": "student,module,test", "value": "score",
        "duplicates": "last", "sensitive": "students.csv", "key": "student", "missing": "error",
        "test": None,
    }  # fmt: skip


def test_one_observation_per_person_works(folder):
    table = pd.read_csv("scores.csv").drop_duplicates("student")
    table.to_csv("scores.csv", index=False)
    run(*FIT, "--strength", 0.1)
    assert np.isfinite(pd.read_csv("run/embedding.csv").iloc[:, 1:].to_numpy()).all()
    assert "can be held out" in run(*FIT, "--force", "--test", 0.2, code=2)


def shuffled_people():
    """Write people in another order, in which rows by position are of somebody else."""
    people = pd.read_csv("students.csv").sort_values("student").sample(frac=1, random_state=5)
    people.to_csv("students.csv", index=False)
    people.rename(columns={"student": "who"}).to_csv("unnamed.csv", index=False)


def test_a_run_with_labels_is_audited_by_its_key(folder):
    shuffled_people()
    run(*FIT, "--method", "none")
    options = ("--columns", "gender", "--attackers", "linear")
    audit = ("audit", "run", "--sensitive", "students.csv", *options)
    run(*audit, "--key", "student", "--json", "one.json")
    run(*audit, "--json", "two.json")
    assert (folder / "one.json").read_text() == (folder / "two.json").read_text()
    text = run("audit", "run", "--sensitive", "unnamed.csv", *options, code=2)
    assert "--key is missing: the column of unnamed.csv that has the labels of mode" in text


def test_a_model_saved_from_python_is_audited_by_its_labels(folder):
    shuffled_people()
    data, _ = read_python()
    FairCP(2, method="none", max_iter=20, tol=1e-2).fit(data).save("run")
    audit = ("audit", "run", "--columns", "gender", "--attackers", "linear", "--sensitive")
    named = run(*audit, "students.csv", "--key", "student")
    assert run(*audit, "students.csv") == named
    assert "--key is missing" in run(*audit, "unnamed.csv", code=2)


def test_new_people_are_found_by_the_key_of_the_run(folder):
    shuffled_people()
    run(*FIT, "--strength", 0.1)
    new = ("transform", "run", "scores.csv", "--sensitive")
    run(*new, "students.csv", "--key", "student", "--out", "one.csv")
    run(*new, "students.csv", "--out", "two.csv")
    assert (folder / "one.csv").read_text() == (folder / "two.csv").read_text()
    text = run(*new, "unnamed.csv", "--out", "three.csv", code=2)
    assert "--key is missing: the column of unnamed.csv that has the labels of mode" in text


@pytest.mark.parametrize("whole", [True, False])
def test_codes_of_new_people_may_be_whole_floats(folder, whole):
    people = pd.read_csv("students.csv")
    people["gender"] = (people["gender"] == "m").astype(int if whole else float)
    people.to_csv("students.csv", index=False)
    run(*FIT, "--strength", 0.1)
    people["gender"] = people["gender"].astype(float if whole else int)
    people.to_csv("students.csv", index=False)
    run("transform", "run", "scores.csv", "--sensitive", "students.csv", "--key", "student",
        "--out", "rows.csv")  # fmt: skip


def test_a_complete_matrix_has_no_cells_to_predict(folder):
    FairCP(2, method="none").fit(np.random.default_rng(0).random((6, 5))).save("run")
    pd.DataFrame({"mode_0": [0], "mode_1": [1]}).to_csv("cells.csv", index=False)
    text = run("predict", "run", "cells.csv", "--out", "out.csv", code=2)
    assert "Error: cells.csv: predict is for tensors, and for matrices with missing" in text


def test_a_ridge_is_named_beside_the_penalty(folder):
    assert ", penalty and ridge " in run(*FIT, "--method", "none")
    text = run(*FIT, "--method", "none", "--ridge", 0, "--force")
    assert ", penalty " in text
    assert "and ridge" not in text


def test_messages_name_the_options(folder):
    Path("unknown.csv").write_text("student,gender\n" + "".join(
        f"{name},{'' if name == 's03' else name[-1]}\n" for name in STUDENTS
    ))  # fmt: skip
    text = run(*FIT, "--sensitive", "unknown.csv", code=2)
    assert "1 missing values" in text
    assert "--missing exclude on the command line" in text
    Path("few.csv").write_text("student,gender\ns00,f\ns01,m\n")
    text = run(*FIT, "--sensitive", "few.csv", code=2)
    assert "--missing exclude on the command line" in text
    with Path("scores.csv").open("a") as file:
        file.write("s00,art,1,10\ns00,art,1,30\n")
    assert "--duplicates mean on the command line" in run(*FIT, code=2)


def test_settings_are_chosen_by_held_out_error(folder):
    base = ("fit", "scores.csv", *TABLE, *PEOPLE, "--center", "--tol", 1e-2, "--out", "run")
    printed = run(*base, "--method", "none", "--rank", "1,2", "--ridge", "0.1,30", "--test", 0.2)
    assert printed.count(": RMSE") == 4
    assert "chosen: rank 2, ridge 0.1" in printed
    record = json.loads((folder / "run" / "fit.json").read_text())["settings"]
    assert record["rank"] == 2
    assert len(record["inputs"]["candidates"]) == 4
    # The held-out entries of --test took no part in the choice.
    data, _ = read_python()
    rest = split_cells(data, test_size=0.2, random_state=0).train
    model = FairCP(method="none", mode="student", center=True, tol=1e-2, random_state=0)
    tuning = tune(model, rest, grid={"rank": [1, 2], "ridge": [0.1, 30.0]})
    np.testing.assert_array_equal(FairCP.load("run").embedding_, tuning.model.embedding_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", "2,x"), "--rank must be whole numbers separated by commas, got '2,x'"),
        (("--rank", "2", "--strength", "1,auto"), "--strength must be a number, several"),
        (("--rank", "2,0"), "--rank must be a whole number of at least 1"),
        (("--rank", "2", "--strength", "1,-3"), "--strength must be a finite number of at least 0"),
        (
            ("--rank", "2", "--method", "none", "--strength", "0,1"),
            "--method none has no penalty",
        ),
        (("--rank", "1,2", "--validation", "2"), "--validation must be a share between 0 and 1"),
    ],
)
def test_bad_settings_to_choose_from(folder, arguments, message):
    text = run("fit", "scores.csv", *TABLE, *PEOPLE, *arguments, "--out", "run", code=2)
    assert message in text
    assert not (folder / "run").exists()
