import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP
from tests.cli.conftest import FIT, FIT_SCORES, PEOPLE, run

SETTINGS = ("--method", "none", "--ridge", 1)


def test_entries_of_a_file_are_predicted(tables):
    scores = pd.read_csv("scores.csv")
    rest = scores.groupby(["student", "module"]).cumcount() > 0
    test = scores[rest & (np.arange(len(scores)) % 5 == 0)]
    scores.drop(test.index).to_csv("scores.csv", index=False)
    test.to_csv("later.tsv", sep="\t", index=False)
    printed = run(*FIT_SCORES, *SETTINGS, "--test", "later.tsv")
    assert f"all {len(test)} " in printed
    record = json.loads(Path("run/evaluation.json").read_text())
    assert (record["test"], record["test_size"]) == ("later.tsv", None)
    found = next(s["value"] for s in record["scores"] if s["measure"] == "rmse")
    predicted = FairCP.load("run").predict(test[["student", "module", "test"]])
    assert found == pytest.approx(np.sqrt(np.mean((predicted - test["score"]) ** 2)))


def test_an_array_is_predicted_where_the_data_has_no_entry(arrays):
    tensor = np.load("tensor.npy")
    hidden = np.random.default_rng(0).random(tensor.shape) < 0.1
    np.save("tensor.npy", np.where(hidden, np.nan, tensor))
    np.save("test.npy", np.where(hidden, tensor, np.nan))
    arguments = (*FIT, *PEOPLE, *SETTINGS, "--tol", 0.1)
    assert f"all {hidden.sum()} " in run(*arguments, "--test", "test.npy")
    np.save("test.npy", tensor[:, :3])
    text = run(*arguments, "--test", "test.npy", "--force", code=2)
    assert "test.npy: must have the shape (40, 8, 6) of the data" in text


def test_files_that_test_nothing_are_refused(tables):
    arguments = (*FIT_SCORES, *SETTINGS, "--force")
    text = run(*arguments, "--test", "scores.csv", code=2)
    assert "entries are in the data too, so predicting them tests nothing" in text
    new = pd.read_csv("scores.csv").head(1).assign(student="nobody")
    new.to_csv("new.csv", index=False)
    text = run(*arguments, "--test", "new.csv", code=2)
    assert "has no label nobody" in text
    assert "cannot be predicted; drop these entries" in text
    text = run(*arguments, "--test", "scores.csv", "--test-size", 0.2, code=2)
    assert "--test and --test-size cannot both be given; choose one of them" in text
