import json

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, split_cells, tune
from parafair.data.tensor_data import TensorData
from tests.cli.conftest import GENDER, MODES, SCORES, run

TUNE = ("tune", "scores.csv", *MODES, *GENDER, "--center", "--tol", 1e-2, "--out", "run")


def test_settings_are_chosen_by_held_out_error(tables):
    printed = run(
        *TUNE, "--method", "none", "--rank", "1,2", "--ridge", "0.1,30", "--test-size", 0.2
    )
    assert printed.count(": RMSE") == 4
    assert "chosen: rank 2, ridge 0.1 residual" in printed
    assert "Errors of held-out entries" in printed
    record = json.loads((tables / "run" / "tuning.json").read_text())
    assert (record["validation_size"], record["max_leakage"]) == (0.1, None)
    assert record["verdict"] is None
    assert len(record["candidates"]) == 4
    assert [c["rank"] for c in record["candidates"] if c["chosen"]] == [2]
    # The held-out entries of --test-size took no part in the choice.
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    rest = split_cells(data, test_size=0.2, random_state=0).train
    model = FairCP(method="none", mode="student", center=True, tol=1e-2, random_state=0)
    tuning = tune(model, rest, grid={"rank": [1, 2], "ridge": [0.1, 30.0]})
    loaded = FairCP.load("run")
    np.testing.assert_array_equal(loaded.embedding_, tuning.model.embedding_)
    assert loaded.rank == 2


@pytest.mark.slow
def test_strengths_are_chosen_by_the_verdict_of_an_audit(tables, monkeypatch):
    monkeypatch.setattr("parafair.model.tuning.panel", lambda stage: ("linear",))
    command = ("tune", *SCORES, "--strength", "0.1,30", "--max-leakage", 0.4, "--out", "run")
    text = run(*command)
    record = json.loads((tables / "run" / "tuning.json").read_text())
    audited = [c for c in record["candidates"] if c["verdict"] is not None]
    assert audited
    for candidate in audited:
        found = f"leakage {candidate['leakage']:.3f}: {candidate['verdict']}"
        assert f"strength {candidate['strength']:g}: {found}" in text
    (best,) = [c for c in record["candidates"] if c["chosen"]]
    assert f"chosen: strength {best['strength']:g}: {record['verdict']} residual" in text


@pytest.mark.slow
def test_several_strengths_without_an_audit_are_warned_of(tables):
    text = run("tune", *SCORES, "--strength", "0.1,1", "--out", "run")
    assert "Warning: the grid has several strengths but --max-leakage is not given" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ridge", "1"), "there is nothing to choose from; give several values to --rank,"),
        (("--cv", "1"), "cv must be a whole number of at least 2, got 1"),
        (("--cv", "3", "--validation-size", "0.1"), "--validation-size and --cv cannot be given"),
        (("--validation", "scores.csv"), "entries are in the data too, so predicting them tests"),
        (("--rank", "2,x"), "--rank must be whole numbers separated by commas, got '2,x'"),
        (("--strength", "1,auto"), "--strength must be numbers separated by commas, got '1,auto'"),
        (("--rank", "2,0"), "rank must be a whole number of at least 1, got 0"),
        (("--strength", "1,-3"), "strength must be a finite number of at least 0, got -3"),
        (
            ("--method", "none", "--strength", "0,1"),
            "--method none has no penalty; leave --strength",
        ),
        (
            ("--rank", "1,2", "--validation-size", "2"),
            "validation must be a share between 0 and 1, such as 0.1, or a TensorData",
        ),
        (("--rank", "1,2", "--max-leakage", "2"), "--max-leakage must be a number from 0 to 1"),
    ],
)
def test_bad_settings_to_choose_from(tables, arguments, message):
    text = run(*TUNE, *arguments, code=2)
    assert message in text.partition("Error:")[2]
    assert not (tables / "run").exists()


def test_an_interrupted_choice_writes_nothing(tables, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.cli.tuning.choose", interrupted)
    text = run(*TUNE, "--rank", "1,2", code=130)
    assert "interrupted; nothing was written" in text
    assert not (tables / "run").exists()


def test_a_choice_by_audit_needs_people(tables):
    text = run("tune", "scores.csv", *MODES, "--method", "none", "--rank", "1,2",
               "--max-leakage", 0.1, "--out", "run", code=2)  # fmt: skip
    assert "--max-leakage 0.1 asks for an audit, which needs the --sensitive" in text


@pytest.mark.slow
def test_ridges_are_compared_by_default_with_folds(tables):
    printed = run(*TUNE, "--method", "none", "--cv", 2)
    record = json.loads((tables / "run" / "tuning.json").read_text())
    assert (record["validation_size"], record["validation"], record["cv"]) == (None, None, 2)
    assert len(record["candidates"]) == printed.count(": RMSE") > 5
    assert all(candidate["rmse_std"] is not None for candidate in record["candidates"])


@pytest.mark.slow
def test_settings_are_compared_by_the_entries_of_a_file(tables):
    table = pd.read_csv("scores.csv")
    table[::9].to_csv("validation.csv", index=False)
    table.drop(table.index[::9]).to_csv("scores.csv", index=False)
    run(*TUNE, "--method", "none", "--rank", "1,2", "--validation", "validation.csv")
    record = json.loads((tables / "run" / "tuning.json").read_text())
    assert record["validation"] == "validation.csv"
    modes = ["student", "module", "test"]
    data, held = (
        TensorData.from_table(name, modes=modes, value="score")
        for name in ("scores.csv", "validation.csv")
    )
    model = FairCP(method="none", mode="student", center=True, tol=1e-2, random_state=0)
    tuning = tune(model, data, grid={"rank": [1, 2]}, validation=held)
    assert [c["rmse"] for c in record["candidates"]] == [c.rmse for c in tuning.candidates]
