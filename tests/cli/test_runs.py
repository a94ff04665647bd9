import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import parafair
from parafair import FairCP
from parafair.cli.runs import write_table
from tests.cli.conftest import FIT, FIT_SCORES, GENDER, MODULES, PEOPLE, SMALL, STUDENTS, run


def test_a_run_has_these_files(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    assert sorted(path.name for path in (arrays / "run").iterdir()) == [
        "embedding.csv",
        "factor_mode_1.csv",
        "factor_mode_2.csv",
        "factors.safetensors",
        "fit.json",
        "inputs.json",
        "manifest.json",
        "model.json",
        "training.json",
    ]


def test_an_existing_run_is_kept_unless_forced(arrays):
    run(*FIT, "--method", "none")
    before = (arrays / "run" / "fit.json").read_bytes()
    text = run(*FIT, "--method", "none", "--random-state", 1, code=2)
    assert "already holds files; choose another folder" in text
    assert (arrays / "run" / "fit.json").read_bytes() == before
    run(*FIT, "--method", "none", "--random-state", 1, "--force")
    assert (arrays / "run" / "fit.json").read_bytes() != before
    assert not [path for path in arrays.iterdir() if path.name.startswith(".")]


def test_force_never_deletes_the_input(arrays):
    run("datasets", "synthetic", "--out", "data", "--shape", "20,4,3", "--rank", 2)
    text = run("fit", "data/tensor.npy", "--method", "none", "--out", "data", "--force", code=2)
    assert "holds other files (sensitive.csv, tensor.npy), which would be lost" in text
    assert (arrays / "data" / "tensor.npy").exists()


def test_labels_survive_to_every_file(tables):
    run(*FIT_SCORES, "--method", "none")
    embedding = pd.read_csv("run/embedding.csv")
    assert embedding["student"].tolist() == STUDENTS
    module = pd.read_csv("run/factor_module.csv")
    assert module["module"].tolist() == MODULES
    assert pd.read_csv("run/factor_test.csv")["test"].tolist() == [1, 2]
    np.testing.assert_allclose(module.iloc[:, 1:], FairCP.load("run").cp_.factors[1])
    run(*FIT_SCORES, "--method", "none", "--force")  # its own files do not protect a run


def test_a_mode_that_is_no_file_name_gets_its_number(tables):
    table = pd.read_csv("scores.csv").rename(columns={"module": "../module"})
    table.to_csv("scores.csv", index=False)
    modes = ("--modes", "student,../module,test", "--value", "score")
    run("fit", "scores.csv", *modes, *GENDER, *SMALL, "--method", "none", "--out", "run")
    assert pd.read_csv("run/factor_1.csv")["../module"].tolist() == MODULES


def test_every_mode_has_a_table_of_its_own(tables):
    table = pd.read_csv("scores.csv").rename(columns={"module": "a/b", "test": "1"})
    table.assign(A=0, a=0).to_csv("scores.csv", index=False)
    modes = ("--modes", "student,a/b,1,A,a", "--value", "score")
    run("fit", "scores.csv", *modes, *GENDER, *SMALL, "--method", "none", "--out", "run")
    tables_found = sorted(path.name for path in (tables / "run").glob("factor_*.csv"))
    assert tables_found == ["factor_1.csv", "factor_1_.csv", "factor_A.csv", "factor_a_.csv"]
    assert pd.read_csv("run/factor_1.csv")["a/b"].tolist() == MODULES
    assert pd.read_csv("run/factor_1_.csv")["1"].tolist() == [1, 2]
    run(
        *FIT_SCORES[:1], "scores.csv", *modes, *SMALL, "--method", "none", "--out", "run", "--force"
    )


def test_labels_cannot_be_formulas_of_a_spreadsheet(tables):
    names = {"algebra": "=HYPERLINK(1)", "art": "@x", "biology": "-y", "music": "-1.5"}
    table = pd.read_csv("scores.csv")
    table.assign(module=table["module"].map(names)).to_csv("scores.csv", index=False)
    run(*FIT_SCORES, "--method", "none")
    found = pd.read_csv("run/factor_module.csv")["module"].tolist()
    assert sorted(found) == ["'-y", "'=HYPERLINK(1)", "'@x", "-1.5"]
    assert set(FairCP.load("run").training_.labels[1]) == set(names.values())
    run(*FIT_SCORES, "--method", "none", "--force", "--raw-labels")
    assert set(pd.read_csv("run/factor_module.csv")["module"]) == set(names.values())


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20"])
def test_no_cell_and_no_header_of_a_table_is_a_formula(tmp_path, start):
    text = f"{start}HYPERLINK(1)"
    table = pd.DataFrame({text: [text, None], "kind": pd.Categorical([text, "a"]), "x": [-1, 2]})
    table[3], table[f"'{text}"] = "-1.5e3", text  # names that are no text, or equal in the end
    write_table(table, tmp_path / "table.csv")
    found = pd.read_csv(tmp_path / "table.csv", header=None, dtype=str, keep_default_na=False)
    assert found.iloc[0].tolist() == [f"'{text}", "kind", "x", "3", f"'{text}"]
    assert found.iloc[1].tolist() == [f"'{text}", f"'{text}", "-1", "-1.5e3", f"'{text}"]
    assert table.columns[0] == text  # the caller's table is unchanged


def test_a_carriage_return_does_not_begin_a_new_row(tmp_path):
    table = pd.DataFrame({"label": ["x\r=1", "y"], "number": [1.5, 2.0]})
    for raw_labels in (False, True):
        write_table(table, tmp_path / "table.csv", raw_labels=raw_labels)
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "table.csv"), table)


def test_predictions_and_new_people_cannot_be_formulas_either(tables):
    table = pd.read_csv("scores.csv")
    table.assign(student="=" + table["student"].astype(str)).to_csv("scores.csv", index=False)
    run(*FIT_SCORES[:6], *SMALL, "--method", "none", "--out", "run")
    run("predict", "run", "scores.csv", "--column", "@guess", "--out", "guesses.csv")
    run("transform", "run", "scores.csv", "--out", "new.csv")
    for name in ("guesses.csv", "new.csv"):
        found = pd.read_csv(name)
        assert found["student"].str.startswith("'=").all()
    assert "'@guess" in pd.read_csv("guesses.csv")


def test_all_tables_of_commands_pass_through_one_function():
    """`write_table` is the place that knows about formulas."""
    folder = Path(parafair.__file__).parent
    writers = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\.to_csv\(|csv\.writer\(|csv\.DictWriter\(", path.read_text("utf-8"))
    }
    # The tables of the paper hold names of the package and numbers only.
    assert writers == {"cli/runs.py", "paper/table.py"}


def test_missing_packages_are_named_before_the_fit(arrays, monkeypatch):
    monkeypatch.setattr("parafair.data.frames.find_spec", lambda name: None)
    text = run(*FIT, *PEOPLE, "--format", "parquet", code=2)
    assert "--format parquet needs the package 'pyarrow'; install it with" in text
    (arrays / "people.parquet").write_text("")
    text = run(*FIT, "--sensitive", "people.parquet", "--key", "person", code=2)
    assert "people.parquet needs the package 'pyarrow'; install it with" in text


def test_parquet_in_and_out(tables):
    pytest.importorskip("pyarrow")
    pd.read_csv("scores.csv").to_parquet("scores.parquet")
    run("fit", "scores.parquet", *FIT_SCORES[2:], "--method", "none", "--format", "parquet")
    assert pd.read_parquet("run/factor_module.parquet")["module"].tolist() == MODULES


def test_an_unknown_format_is_refused_before_the_fit(arrays):
    text = run(*FIT, *PEOPLE, "--format", "xls", code=2)
    assert text.startswith("Error: --format must be one of csv, parquet; got 'xls'")
    assert not (arrays / "run").exists()


def test_a_run_with_entries_of_training_people_says_so(arrays):
    text = run(*FIT, *PEOPLE, "--method", "kernel-perez-suay")
    assert "Warning: the folder contains the entries of" in " ".join(text.split())
