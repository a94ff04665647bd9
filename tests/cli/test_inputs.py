from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("typer")
from parafair.cli.inputs import INPUTS_FILE, Inputs
from parafair.cli.people import FeatureOptions, PeopleOptions
from parafair.cli.side import SideOptions
from parafair.cli.tensors import TensorOptions
from parafair.stored import read_record, write_record
from parafair.temporaries import digest_of
from tests.cli.conftest import FIT_SCORES, GENDER, run

TENSOR = TensorOptions(Path("scores.csv"), "a,b", "score", "last")
PEOPLE = FeatureOptions(Path("people.csv"), "id", "exclude", "x,y", ["x=numeric"])


def test_inputs_survive_a_file(tmp_path):
    inputs = Inputs.of(TENSOR, PEOPLE, SideOptions(), test_size=0.2)
    assert inputs == Inputs(
        "scores.csv", ("a", "b"), "score", "last", "people.csv", ("x", "y"), ("x=numeric",),
        "id", "exclude", test_size=0.2,
    )  # fmt: skip
    inputs.write(tmp_path)
    assert Inputs.read(tmp_path) == inputs
    assert Inputs.read(tmp_path / "saved from Python") == Inputs()


def test_a_record_of_something_else_is_refused(tmp_path):
    write_record(tmp_path / INPUTS_FILE, {"people": 3})
    with pytest.raises(ValueError, match="inputs.json is damaged or incomplete"):
        Inputs.read(tmp_path)


def test_options_come_before_the_record():
    inputs = Inputs.of(TENSOR, PEOPLE, SideOptions())
    assert inputs.complete(FeatureOptions()) == FeatureOptions(
        None, None, "exclude", "x,y", ["x=numeric"]
    )
    given = FeatureOptions(columns="y", missing="error")
    assert inputs.complete(given) == given
    assert inputs.complete(PeopleOptions()) == PeopleOptions(missing="exclude")


def test_a_run_records_its_inputs(tables):
    run(*FIT_SCORES, "--method", "none", "--duplicates", "last")
    record = read_record(tables / "run" / "inputs.json")
    assert record == {
        "tensor": "scores.csv", "modes": ["student", "module", "test"], "value": "score",
        "duplicates": "last", "absent": None, "sensitive": "students.csv", "columns": ["gender"],
        "kinds": [],
        "key": "student", "missing": "error", "test_size": None, "test": None, "frontier": None,
        "max_leakage": None, "guarantee": None, "max_certified": None,
        "side": None, "side_columns": None, "side_key": None,
        "checksum": digest_of(tables / "scores.csv"),
    }  # fmt: skip
    assert set(record) == set(asdict(Inputs()))


def test_kinds_of_the_run_are_used_again(tables):
    run(*FIT_SCORES, *GENDER[:2], "--sensitive-columns", "age", "--kind", "age=numeric")
    shown = run("audit", "run", "--attackers", "linear")
    assert "age: R squared" in shown
    assert "gender" not in shown  # a column of the table that the run has not used
