from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import TensorData
from parafair.cli.tensors import people_mode
from tests.cli.conftest import FIT, FIT_SCORES, GENDER, MODES, PEOPLE, SMALL, run


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    return lambda: Path(name).write_bytes(data)


HEADER = "student,module,test,score\n"
ONE = f"{HEADER}s00,art,1,5\n"


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ("--modes", "studnet,module,test"), "scores.csv: a mode must be one of student,"),
        (None, ("--modes", "studnet,module,test"), "did you mean 'student'?"),
        (None, ("--modes", "student"), "modes must be names of at least 2 columns"),
        (None, ("--modes", "student,component_1"), "columns of this name hold embeddings"),
        (None, ("--value", "scor"), "did you mean 'score'?"),
        (None, ("--sensitive-columns", "gendr"), "did you mean 'gender'?"),
        (None, ("--key", "studnt"), "did you mean 'student'?"),
        (None, ("--mode", "modul"), "did you mean 'module'?"),
        (None, ("--missing", "leave"), "missing must be one of error, exclude; got 'leave'"),
        (None, ("--duplicates", "average"), "duplicates must be one of error, mean, sum, max,"),
        (None, ("--ridge", -1), "must be a finite number of at least 0, got -1"),
        (write("scores.csv", f"{ONE}s01,art,1,good\n"), (), "column 'score' must hold numbers"),
        (write("scores.csv", f"{ONE}s00,art,1,6\n"), (), "student s00, module art, test 1: 5, 6"),
        (write("scores.csv", f"{HEADER}s00,art,1,\ns01,art,1,\n"), (), "'score' has no values"),
        (write("scores.csv", f"{ONE},art,1,6\n"), (), "has 1 rows without a label"),
        (write("scores.csv", ""), (), "scores.csv could not be read as a table"),
        (write("scores.csv", HEADER), (), "scores.csv holds no rows"),
        (
            write("scores.csv", b"student,module,test,score\ns\xff,art,1,5\n"),
            (),
            "scores.csv is not encoded as UTF-8",
        ),
        (write("students.csv", "student,gender\ns00,f\ns00,m\n"), (), "more than one row for"),
        (write("students.csv", "student,gender\ns00,f\ns01,m\n"), (), "no row for 38 of 40"),
        (write("students.csv", "student,gender\n"), (), "students.csv holds no rows"),
    ],
)
def test_bad_tables_get_one_clear_line(tables, change, arguments, message):
    if change is not None:
        change()
    text = run(*FIT_SCORES, *arguments, code=2)
    assert text.count("Error:") == 1
    assert message in text.partition("Error:")[2]
    assert not (tables / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tensor.npy", b"\x93NUMPY\x01", "could not be read as a NumPy array"),
        ("tensor.npy", "hello", "could not be read as a NumPy array"),
        ("people.csv", "", "could not be read as a table"),
        ("people.csv", "person,group\n", "holds no rows"),
        ("people.csv", b"person,group\n\xff\xfe,1\n", "is not encoded as UTF-8"),
        ("people.csv", "person,group\np0,a\np1,b\n", "people.csv has 2 rows but mode 0 of the"),
    ],
)
def test_unreadable_files_are_named(arrays, name, content, message):
    write(name, content)()
    people = PEOPLE if "people" in name else ("--method", "none")
    text = run(*FIT, *people, code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (arrays / "run").exists()


def test_pickled_arrays_are_not_loaded(arrays):
    np.save("tensor.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "could not be read as a NumPy array" in run(*FIT, "--method", "none", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no.npy",), "no.npy does not exist"),
        (("people.csv",), "such as --modes student,test"),
        (("scores.csv.gz", "--value", "score"), "'scores.csv.gz' must end in one of .csv,"),
        (("tensor.npy", "--value", "group"), "--value, --duplicates and --absent are for tables"),
        (
            ("tensor.npy", "--duplicates", "sum"),
            "--value, --duplicates and --absent are for tables",
        ),
        (
            ("tensor.npy", "--mode", "persn", *PEOPLE),
            "mode must be one of mode_0, mode_1, mode_2; got 'persn'",
        ),
        (("tensor.npy", "--mode", 3, *PEOPLE), "mode must be between 0 and 2 or one of mode_0"),
    ],
)
def test_a_wrong_tensor_is_refused(arrays, arguments, message):
    (arrays / "scores.csv.gz").touch()
    text = run("fit", *arguments, "--out", "run", code=2)
    assert text.startswith("Error:")
    assert message in text


def test_the_mode_of_the_people_is_given_or_called_like_the_key_or_the_first():
    data = TensorData.from_array(np.ones((2, 3)), modes=["1", "student"])
    assert people_mode(data, None, None) == 0
    assert people_mode(data, None, "student") == 1
    assert people_mode(data, None, "id") == 0
    assert people_mode(data, "student", "1") == 1
    assert people_mode(data, "0", None) == 0
    assert people_mode(data, "1", None) == 0  # names come first


def test_all_forms_of_the_data_give_the_same_run(tables):
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    indices = data.cells.T.numpy() + 1
    lines = [
        " ".join(map(str, [*i, v])) for i, v in zip(indices, data.entries.tolist(), strict=True)
    ]
    (tables / "scores.TNS").write_text("\n".join(lines) + "\n")
    np.save("scores.npy", data.to_dense().values.numpy())
    (tables / "scores.csv").rename(tables / "scores.CSV")
    (tables / "scores.npy").rename(tables / "scores.NPY")
    people = pd.read_csv("students.csv").sort_values("student")
    people.assign(student=range(1, 41)).to_csv("numbered.csv", index=False)
    people.to_csv("students.csv", index=False)
    plain = (*SMALL, "--rank", 2, "--method", "none")
    run("fit", "scores.CSV", *FIT_SCORES[2:], "--method", "none")
    run("fit", "scores.NPY", *GENDER, *plain, "--out", "array")
    numbered = ("--sensitive", "numbered.csv", "--sensitive-columns", "gender", "--key", "student")
    run("fit", "scores.TNS", "--modes", "student,module,test", *numbered, *plain, "--out", "list")
    expected = pd.read_csv("run/embedding.csv")
    pd.testing.assert_frame_equal(pd.read_csv("array/embedding.csv"), expected, rtol=1e-6)
    found = pd.read_csv("list/embedding.csv")
    assert found["student"].tolist() == list(range(1, 41))
    np.testing.assert_allclose(found.iloc[:, 1:], expected.iloc[:, 1:], rtol=1e-6)


def test_a_table_too_large_for_memory_is_refused(tables, monkeypatch):
    monkeypatch.setattr("parafair.data.frames.MEMORY_PER_BYTE_OF_TEXT", 10**12)
    assert "GB of memory, but this machine has" in run(*FIT_SCORES, code=2)


def test_duplicates_are_merged_as_stated(tables):
    with Path("scores.csv").open("a") as file:
        file.write("s00,art,1,10\ns00,art,1,30\n")
    assert "merge them with --duplicates mean, sum, max" in run(*FIT_SCORES, code=2)
    run(*FIT_SCORES, "--method", "none", "--duplicates", "last")
    last = pd.read_csv("run/embedding.csv")
    table = pd.read_csv("scores.csv").drop_duplicates(["student", "module", "test"], keep="last")
    table.to_csv("merged.csv", index=False)
    plain = (*GENDER, *SMALL, "--rank", 2, "--method", "none")
    run("fit", "merged.csv", *MODES, *plain, "--out", "merged")
    pd.testing.assert_frame_equal(pd.read_csv("merged/embedding.csv"), last)
