import json
import os

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, TensorData
from parafair.audits import Audit
from tests.cli.conftest import FIT, FIT_SCORES, PEOPLE, run, shuffle_people

QUICK = ("--attackers", "linear", "--repeats", 1, "--permutations", 10)


def read_audit(path):
    return Audit.from_dict(json.loads(path.read_text()))


def test_an_audit_of_a_run_ends_with_its_verdict(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    shown = run("audit", "run", "--attackers", "linear,forest", "--json", "audit.json")
    assert "forest" in shown
    found = read_audit(arrays / "audit.json")
    assert f"leakage {found.leakage:.3f}" in shown
    assert shown.endswith(f"verdict at --max-leakage 0.05: {found.verdict(0.05).value}")
    shown = run("audit", "run", *QUICK, "--max-leakage", 1, "--json", "quick.json")
    verdict = read_audit(arrays / "quick.json").verdict(1).value
    assert shown.endswith(f"verdict at --max-leakage 1: {verdict}")


def test_settings_of_the_audit_reach_it(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    shown = run("audit", "run", *QUICK, "--folds", 3, "--random-state", 1)
    assert "10 permutations" in shown
    assert "svm" not in shown


def test_new_people_are_attacked_by_those_who_know_the_others(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    table = pd.read_csv("run/embedding.csv")
    table.iloc[::2].to_csv("known.csv", index=False)
    table.iloc[1::2].to_csv("new.csv", index=False)
    arguments = ("--new-embedding", "new.csv", "--new-sensitive", "people.csv")
    shown = run("audit", "known.csv", *PEOPLE, *arguments, *QUICK, "--json", "new.json")
    assert "attackers were trained on 20 people and tested on new ones" in shown
    assert read_audit(arrays / "new.json").people == 20
    shown = run("audit", "known.csv", *PEOPLE, *arguments[:2], *QUICK, code=2)
    assert "--new-sensitive is missing" in shown


def test_new_people_of_a_run_are_matched_by_its_labels(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    pd.read_csv("people.csv").iloc[::-1].to_csv("reversed.csv", index=False)
    found = []
    for table in ("people.csv", "reversed.csv"):
        arguments = ("--new-embedding", "run/embedding.csv", "--new-sensitive", table)
        run("audit", "run", *arguments, *QUICK, "--json", f"of-{table}.json")
        found.append(read_audit(arrays / f"of-{table}.json").leakage)
    assert found[0] == found[1]


def test_predicted_scores_and_lists_are_audited(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    shown = run("audit", "run", "--top", 3, *QUICK, "--json", "outputs.json")
    assert "lists of the 3 highest scores" in shown
    assert "verdict of the outputs at --max-leakage 0.05:" in shown
    record = json.loads((arrays / "outputs.json").read_text())["outputs"]
    assert Audit.from_dict(record["lists"]).people == 40
    shown = run("audit", "run/embedding.csv", *PEOPLE, "--top", 3, code=2)
    assert "--top needs a run" in shown


def test_a_person_far_from_all_others_is_named(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    table = pd.read_csv("run/embedding.csv")
    table.loc[7, "component_0"] = 1e20
    table.to_csv("far.csv", index=False)
    assert repr(str(table.iloc[7, 0])) in run("audit", "far.csv", *PEOPLE, *QUICK)


def test_an_audit_follows_the_key_not_the_order(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    run("audit", "run", *PEOPLE, *QUICK, "--json", "one.json")
    pd.read_csv("people.csv").sample(frac=1, random_state=0).to_csv("shuffled.csv", index=False)
    run("audit", "run", "--sensitive", "shuffled.csv", *QUICK, "--json", "two.json")
    assert (arrays / "one.json").read_text() == (arrays / "two.json").read_text()


def test_tables_and_arrays_of_rows_are_audited(arrays):
    pytest.importorskip("pyarrow")
    run(*FIT, *PEOPLE, "--method", "none", "--format", "parquet")
    table = pd.read_parquet("run/embedding.parquet")
    assert len(table) == 40
    run("audit", "run/embedding.parquet", *PEOPLE, *QUICK)
    np.save("rows.npy", table.iloc[:, 1:].to_numpy())
    run("audit", "rows.npy", "--sensitive", "people.csv", "--sensitive-columns", "group", *QUICK)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--sensitive", "people.csv"), "nowhere does not exist or is not a file"),
        (("people.csv", "--sensitive", "people.csv"), "columns that are not numbers: person"),
        (("tensor.npy",), "--sensitive is missing; give the table of people"),
        (("tensor.npy", *PEOPLE), "--key person needs a table with that column"),
        (("tensor.npy", "--max-leakage", 2), "--max-leakage must be a number from 0 to 1, got 2"),
    ],
)
def test_what_cannot_be_audited_is_refused(arrays, arguments, message):
    text = run("audit", *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text


def test_the_key_is_checked(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    people = pd.read_csv("people.csv")
    people.iloc[1:].to_csv("few.csv", index=False)
    text = run("audit", "run", "--sensitive", "few.csv", "--key", "person", code=2)
    assert "few.csv: table has no row for 1 of 40 people, such as person p0" in text
    pd.concat([people, people.iloc[:1]]).to_csv("twice.csv", index=False)
    text = run("audit", "run", "--sensitive", "twice.csv", "--key", "person", code=2)
    assert "more than one row for person p0" in text
    (arrays / "audit.json").write_text("{}")
    text = run("audit", "run", *PEOPLE, "--json", "audit.json", code=2)
    assert "audit.json already exists; choose another file" in text
    assert "--target must be one of person, group; got 'mark'" in run(
        "audit", "run", "--target", "mark", code=2
    )


def test_an_array_without_a_key_is_audited_by_position(arrays):
    run(*FIT, "--sensitive", "people.csv", "--sensitive-columns", "group", "--method", "none")
    audit = ("audit", "run", *QUICK, "--sensitive")
    assert run(*audit, "people.csv") == run(*audit, "numbered.csv", "--key", "person")


def test_a_run_with_labels_is_audited_by_its_key(tables):
    shuffle_people()
    run(*FIT_SCORES, "--method", "none")
    audit = ("audit", "run", "--sensitive", "students.csv", *QUICK)
    run(*audit, "--sensitive-columns", "gender", "--key", "student", "--json", "one.json")
    run(*audit, "--json", "two.json")
    run("audit", "run", *QUICK, "--json", "three.json")
    for name in ("two.json", "three.json"):
        assert (tables / "one.json").read_text() == (tables / name).read_text()
    text = run("audit", "run", "--sensitive", "unnamed.csv", *QUICK, code=2)
    assert "--key is missing; give the column of unnamed.csv that has the labels of mode" in text


def test_a_model_saved_from_python_is_audited_by_its_labels(tables):
    shuffle_people()
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    FairCP(2, method="none", max_iter=20, tol=1e-2).fit(data).save("run")
    audit = ("audit", "run", "--sensitive-columns", "gender", *QUICK, "--sensitive")
    named = run(*audit, "students.csv", "--key", "student")
    assert run(*audit, "students.csv") == named
    assert "--key is missing; give the column of unnamed.csv" in run(*audit, "unnamed.csv", code=2)
    assert "--sensitive is missing; give the table" in run("audit", "run", *QUICK, code=2)


def test_results_of_an_audit_are_replaced_only_if_asked(arrays):
    pytest.importorskip("matplotlib")
    run(*FIT, *PEOPLE, "--method", "none")
    for name in ("audit.json", "audit.png"):
        (arrays / name).write_text("precious")
    command = ("audit", "run", *QUICK, "--json", "audit.json", "--picture", "audit.png")
    assert "audit.json already exists; choose another file" in run(*command, code=2)
    command = ("audit", "run", *QUICK, "--picture", "audit.png")
    assert "audit.png already exists; choose another file" in run(*command, code=2)
    run(*command, "--json", "audit.json", "--force")
    assert read_audit(arrays / "audit.json").attackers
    assert (arrays / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert not [path for path in arrays.iterdir() if path.name.startswith(".")]


def test_what_cannot_be_written_is_refused_before_the_audit(arrays, monkeypatch):
    run(*FIT, *PEOPLE, "--method", "none")

    def refuse(*_, **__):
        raise AssertionError("audited")

    monkeypatch.setattr("parafair.cli.auditing.audit", refuse)
    text = run("audit", "run", "--picture", "audit.gif", code=2)
    assert "--picture must end in .png, .pdf, .svg, got 'audit.gif'" in text
    monkeypatch.setattr("parafair.pictures.find_spec", lambda name: None)
    text = run("audit", "run", "--picture", "audit.png", code=2)
    assert "drawing needs matplotlib; install it with" in text
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    text = run("audit", "run", "--json", "audit.json", code=2)
    assert "cannot be written to; choose another folder" in text


def test_a_run_without_one_of_its_files_is_refused(arrays):
    run(*FIT, *PEOPLE, "--method", "none")
    for name in ("inputs.json", "model.json"):
        file = arrays / "run" / name
        whole = file.read_bytes()
        file.unlink()
        text = run("audit", "run", *PEOPLE, *QUICK, code=2)
        assert f"run/{name} " in text
        file.write_bytes(whole)


def test_data_that_was_changed_after_it_was_written_is_mentioned(working):
    run("datasets", "synthetic", "--shape", "20,4,3", "--out", "data")
    fit = ("fit", "data/tensor.npy", "--sensitive", "data/sensitive.csv", "--key", "person")
    fit = (*fit, "--rank", 2, "--max-iter", 5, "--force", "--out", "run")
    assert "Warning: data" not in run(*fit)
    people = working / "data" / "sensitive.csv"
    people.write_text(people.read_text().replace("uniform", "other"))
    assert "Warning: data/sensitive.csv was changed after parafair wrote it" in run(*fit)
