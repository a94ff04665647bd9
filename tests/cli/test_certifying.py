import json

import numpy as np
import pandas as pd
import pytest

from parafair import Certificate, FairCP, certify, datasets
from tests.cli.conftest import PEOPLE, run

FIT = ("fit", "tensor.npy", *PEOPLE, "--rank", 2, "--method", "transport", "--out", "run")
DRAWS = ("--draws", 1000)


@pytest.fixture
def fitted(arrays):
    """A run with noise, and 100 new people."""
    run(*FIT, "--noise", 0.5)
    new = datasets.synthetic(1, shape=(100, 8, 6), rank=3)
    np.save("new.npy", new.tensor)
    table = pd.DataFrame({"group": new.sensitive_features})
    table.to_csv("new.csv", index=False)
    return arrays


def test_the_certificate_is_that_of_python(fitted):
    expected = certify(FairCP.load("run"), draws=1000, releases=3, random_state=1)
    printed = run(
        "certify", "run", *DRAWS, "--releases", 3, "--random-state", 1, "--out", "certificate.json"
    )
    assert printed == " ".join(str(expected).split())
    written = json.loads((fitted / "certificate.json").read_text())
    assert written["statements"] == json.loads(json.dumps(expected.to_dict()["statements"]))
    assert str(Certificate.read("certificate.json")) == str(expected)
    text = run("certify", "run", "--out", "certificate.json", code=2)
    assert "certificate.json already exists; choose another file" in text
    run("certify", "run", *DRAWS, "--out", "certificate.json", "--force")


def test_a_certificate_can_be_kept_in_the_run(fitted):
    run("certify", "run", *DRAWS, "--out", "run/certificate.json")
    assert Certificate.read("run/certificate.json").people == 40
    run(*FIT, "--noise", 0.5, "--force")


def test_held_out_people_are_certified(fitted):
    new = ("--new-tensor", "new.npy", "--new-sensitive", "new.csv")
    printed = run("certify", "run", *new, *DRAWS, "--confidence", 0.9)
    data, groups = np.load("new.npy"), pd.read_csv("new.csv")
    expected = certify(FairCP.load("run"), data, groups, draws=1000, confidence=0.9)
    assert printed == " ".join(str(expected).split())
    assert "(P) population" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--new-tensor", "new.npy"), "--new-sensitive is missing; new people need"),
        (("--new-sensitive", "new.csv"), "--new-tensor is missing; new people need"),
        (("--key", "person"), "--key is for --new-sensitive, which was not given"),
        (("--draws", 10), "draws must be a whole number from 100"),
        (("--confidence", 1.0), "confidence must be below 1"),
        (
            ("--new-tensor", "tensor.npy", "--new-sensitive", "people.csv"),
            "40 of the 40 people of X_new have the same entries as a person of the training",
        ),
    ],
)
def test_wrong_options_are_refused(fitted, arguments, message):
    text = run("certify", "run", *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text


def test_a_run_without_noise_is_refused(arrays):
    run(*FIT)
    text = run("certify", "run", code=2)
    assert "noise is 0, so whoever holds the exact rows recognizes everybody" in text
    assert "FairCP(noise=" in text
