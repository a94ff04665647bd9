import json

import numpy as np
import pandas as pd
import pytest

from parafair import Certificate, FairCP, certify, datasets
from parafair.cli import certifying, runs
from tests.cli.conftest import PEOPLE, run

FIT = ("fit", "tensor.npy", *PEOPLE, "--rank", 2, "--method", "transport", "--out", "run")
DRAWS = ("--draws", 1000)


@pytest.fixture
def fitted(arrays):
    """A run with noise and its exact rows, and 100 new people."""
    printed = run(*FIT, "--noise", 0.5, "--keep-exact")
    assert "the folder contains the rows without noise" in printed
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
    assert Certificate.read("run/certificate.json").draws == 20_000
    run("certify", "run", *DRAWS, "--out", "run/certificate.json", "--force")
    assert FairCP.load("run").certificate_.draws == 1000
    run(*FIT, "--noise", 0.5, "--force")


def test_a_run_without_exact_rows_shows_its_stored_certificate(arrays):
    run(*FIT, "--noise", 0.5)
    assert not FairCP.load("run").has_exact_rows
    stored = " ".join(str(Certificate.read("run/certificate.json")).split())
    printed = run("certify", "run", "--out", "copy.json")
    told = "The run has no rows without noise; this is the certificate stored with it. "
    assert printed == told + stored
    assert str(Certificate.read("copy.json")) == str(FairCP.load("run").certificate_)
    assert run("certify", "run", "--draws", 20_000, "--releases", 1) == told + stored
    for wrong in (("--releases", 3), ("--random-state", 1), ("--confidence", 0.9)):
        text = run("certify", "run", *wrong, code=2)
        assert f"{wrong[0]} is {wrong[1]}, but the run has no rows without noise" in text
    model = FairCP(2, method="transport", noise=0.5)
    data = datasets.synthetic(0, shape=(40, 8, 6), rank=3)
    model.fit(data.tensor, sensitive_features=pd.DataFrame({"group": data.sensitive_features}))
    assert " ".join(str(certify(model)).split()) == stored


def test_a_population_is_certified_without_exact_rows(fitted):
    new = ("--new-tensor", "new.npy", "--new-sensitive", "new.csv")
    before = run("certify", "run", *new, *DRAWS)
    run(*FIT, "--noise", 0.5, "--force")
    after = run("certify", "run", *new, *DRAWS)
    assert "of 100 new people have the mark of a training person" in after
    assert after.split(" - ")[:2] == before.split(" - ")[:2]


@pytest.mark.parametrize("people", [slice(None), slice(1, None), slice(None, None, -1)])
def test_training_people_are_refused_without_exact_rows(fitted, people):
    run(*FIT, "--noise", 0.5, "--force")
    np.save("some.npy", np.load("tensor.npy")[people])
    pd.read_csv("people.csv")[people].to_csv("some.csv", index=False)
    new = ("--new-tensor", "some.npy", "--new-sensitive", "some.csv")
    text = run("certify", "run", *new, code=2)
    assert text.startswith("Error:")
    assert "people of --new-tensor have the mark of a training person" in text
    assert "pass held-out people" in text


def test_a_run_that_was_not_certified_says_what_to_do(arrays):
    run(*FIT, "--noise", 0.5, "--no-certify")
    assert not (arrays / "run" / "certificate.json").exists()
    text = run("certify", "run", code=2)
    assert "saved without exact rows" in text
    assert "save it with --keep-exact" in text


def test_many_people_are_certified_by_samples_unless_all_are_asked_for(arrays, monkeypatch):
    monkeypatch.setattr(runs, "MOST_CERTIFIED", 39)
    monkeypatch.setattr("parafair.guarantees.settings.LEAST_SAMPLED", 39)
    text = run(*FIT, "--noise", 0.5)
    assert "certified by samples of 39 people; --certify takes all 40" in text
    assert "samples of 39 of 40 people" in (arrays / "run" / "certificate.json").read_text()
    run(*FIT, "--noise", 0.5, "--force", "--certify")
    assert "samples of" not in (arrays / "run" / "certificate.json").read_text()


def test_a_fit_that_cannot_be_certified_is_kept(arrays):
    text = run(*FIT, "--noise", 1e-14)
    assert "not certified: noise underflows" in text
    assert FairCP.load("run").fit_.noise
    assert not (arrays / "run" / "certificate.json").exists()


def test_exposures_are_columns_of_the_embedding(fitted):
    run("certify", "run", *DRAWS, "--exposure", "exposed.csv")
    table = pd.read_csv("exposed.csv")
    expected = certify(FairCP.load("run"), draws=1000)
    assert list(table.columns) == [
        "person", "component_0", "component_1", "exposure_b_group", "exposure_a_group",
    ]  # fmt: skip
    np.testing.assert_allclose(table["exposure_b_group"], expected.exposure)
    embedding = pd.read_csv("run/embedding.csv")
    pd.testing.assert_frame_equal(table[embedding.columns], embedding)
    assert "exposed.csv already exists" in run(
        "certify", "run", "--exposure", "exposed.csv", code=2
    )
    # The exposures are not taken for components.
    audited = ("audit", "exposed.csv", *PEOPLE[:2], "--sensitive-columns", "group")
    assert "linear" in run(*audited, "--attackers", "linear", "--permutations", 2)


def test_a_stored_certificate_has_no_exposures_to_write(fitted, monkeypatch):
    run("certify", "run", *DRAWS, "--out", "stored.json")
    stored = Certificate.read("stored.json")
    monkeypatch.setattr(certifying, "certify", lambda *_, **__: stored)
    text = run("certify", "run", "--exposure", "exposed.csv", code=2)
    assert "--exposure needs the rows of the run without noise" in text
    assert "fit again with --keep-exact" in text
    assert not (fitted / "exposed.csv").exists()


def test_people_without_features_have_no_exposure(arrays):
    people = pd.read_csv("people.csv")
    people.loc[3, "group"] = None
    people.to_csv("people.csv", index=False)
    run(*FIT, "--noise", 0.5, "--missing", "exclude", "--keep-exact")
    run("certify", "run", *DRAWS, "--exposure", "exposed.csv")
    table = pd.read_csv("exposed.csv")
    assert np.flatnonzero(table["exposure_b_group"].isna()).tolist() == [3]
    assert len(table) == 40


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
        (("--exposure", "exposed.txt"), "--exposure must be one of csv, parquet; got 'txt'"),
        (
            ("--exposure", "e.csv", "--new-tensor", "new.npy", "--new-sensitive", "new.csv"),
            "--exposure is of the people of the run, but --new-tensor has others",
        ),
        (("--draws", 10), "draws must be a whole number from 100"),
        (("--confidence", 1.0), "confidence must be below 1"),
        (
            ("--new-tensor", "tensor.npy", "--new-sensitive", "people.csv"),
            "40 of the 40 people of --new-tensor have the same entries as a person of the training",
        ),
    ],
)
def test_wrong_options_are_refused(fitted, arguments, message):
    text = run("certify", "run", *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["normal", "uniform"] * 49, "--new-sensitive has 98 rows but --new-tensor has 100 people"),
        (["normal"] * 99 + ["uniform"], "has one person in the group 'uniform'"),
        (np.arange(100).astype(str), "'group' must be one of normal, uniform; got '0'"),
    ],
)
def test_features_of_other_people_are_refused(fitted, groups, message):
    pd.DataFrame({"group": groups}).to_csv("wrong.csv", index=False)
    text = run("certify", "run", "--new-tensor", "new.npy", "--new-sensitive", "wrong.csv", code=2)
    assert text.startswith("Error:")
    assert message in text


def test_new_people_of_another_shape_are_refused(fitted):
    np.save("wide.npy", np.load("new.npy")[:, :4])
    new = ("--new-tensor", "wide.npy", "--new-sensitive", "new.csv")
    text = run("certify", "run", *new, code=2)
    assert "--new-tensor must have shape (people, 8, 6), got (100, 4, 6)" in text
    assert "of every mode but that of the people" in text


def test_noise_that_underflows_is_refused(arrays):
    run(*FIT, "--noise", 1e-18, "--keep-exact")
    assert "noise underflows" in run("certify", "run", code=2)


def test_a_run_without_noise_is_refused(arrays):
    run(*FIT)
    text = run("certify", "run", code=2)
    np.save("new.npy", datasets.synthetic(1, shape=(40, 8, 6), rank=3).tensor)
    new = ("--new-tensor", "new.npy", "--new-sensitive", "people.csv", "--key", "person")
    assert "noise is 0, so whoever holds" in run("certify", "run", *new, code=2)
    assert "noise is 0, so whoever holds the exact rows recognizes everybody" in text
    assert "as in --noise 0.0" in text
