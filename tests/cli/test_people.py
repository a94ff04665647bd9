from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP
from parafair.cli import people as module
from tests.cli.conftest import (
    FIT,
    FIT_SCORES,
    GENDER,
    MODES,
    PEOPLE,
    SMALL,
    STUDENTS,
    run,
    shuffle_people,
)


def test_stated_kinds_and_chosen_columns(arrays):
    people = pd.read_csv("people.csv")
    people["band"], people["constant"] = np.arange(40) % 4, 1
    people.to_csv("people.csv", index=False)
    run(
        *FIT,
        *PEOPLE,
        "--sensitive-columns",
        "group,band",
        "--kind",
        "band=numeric",
        "--max-iter",
        3,
    )
    columns = FairCP.load("run").training_.features.columns
    assert {c.name: c.kind for c in columns} == {"group": "categorical", "band": "numeric"}
    run(*FIT, *PEOPLE, "--force", "--sensitive-columns", "band", "--max-iter", 3)
    (column,) = FairCP.load("run").training_.features.columns
    assert (column.name, column.kind) == ("band", "categorical")
    assert column.categories == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs --sensitive, but none were given"),
        ((*PEOPLE, "--sensitive-columns", "grup"), "did you mean 'group'"),
        (("--sensitive", "people.csv", "--key", "persn"), "did you mean 'person'"),
        (("--sensitive", "people.csv"), "'person' has a different value for each person"),
        (("--sensitive", "numbered.csv"), "'person' has a different value for each person"),
        ((*PEOPLE, "--kind", "group"), "--kind must look like column=numeric"),
        ((*PEOPLE, "--sensitive-columns", "group,group"), "one or more different names"),
        (
            ("--method", "none", "--key", "person"),
            "--missing need the table of people, but it was not given; add --sensitive",
        ),
        (
            ("--method", "none", "--missing", "exclude"),
            "need the table of people, but it was not given",
        ),
    ],
)
def test_wrong_people_are_refused(arrays, arguments, message):
    text = run(*FIT, *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (arrays / "run").exists()


def test_keys_are_checked_before_the_fit(arrays):
    people = pd.read_csv("people.csv")
    people.loc[1, "person"] = "p0"
    people.to_csv("people.csv", index=False)
    assert "more than one row for person p0" in run(*FIT, *PEOPLE, code=2)


def test_people_are_found_by_key_in_any_mode(tables):
    modes = ("--modes", "module,student,test", "--value", "score")
    model = (*SMALL, "--rank", 2)
    run("fit", "scores.csv", *modes, *GENDER, *model, "--out", "run")
    assert FairCP.load("run").training_.mode == 1
    people = pd.read_csv("students.csv").rename(columns={"student": "id"})
    people.to_csv("students.csv", index=False)
    run("fit", "scores.csv", *modes, *GENDER[:-1], "id", "--mode", "student", *model,
        "--out", "other")  # fmt: skip
    first, second = (pd.read_csv(f"{name}/embedding.csv") for name in ("run", "other"))
    pd.testing.assert_frame_equal(first, second)
    run("audit", "other", "--attackers", "linear")


def test_people_without_features_are_fitted_and_left_out(tables):
    everybody = pd.read_csv("students.csv")
    people = everybody.sort_values("student")
    people.loc[people["student"] == "s03", "gender"] = None
    people[people["student"] != "s07"].to_csv("students.csv", index=False)
    assert "no row for 1 of 40 people, such as student s07" in run(*FIT_SCORES, code=2)
    text = run(*FIT_SCORES, "--missing", "exclude")
    assert "2 of 40 people lack sensitive features (s03, s07)" in text
    assert len(pd.read_csv("run/embedding.csv")) == 40
    everybody.to_csv("students.csv", index=False)
    audit = ("audit", "run", "--attackers", "linear", "--folds", 2, "--permutations", 5)
    assert "left out: 2 of 40 people, who were not in the criterion of the run" in run(*audit)
    everybody.iloc[:-3].to_csv("students.csv", index=False)
    # The policy is that of the run, unless another is given.
    assert "no row for 3 of 38 people" in run(*audit, "--missing", "error", code=2)
    left = "left out: 3 of 40 people, who lack sensitive features"
    assert left in run(*audit)
    assert left in run(*audit, "--target", "age")


def test_people_without_a_key_are_refused(tables):
    text = run("fit", "scores.csv", *MODES, *GENDER[:-2], *SMALL, "--out", "run", code=2)
    assert "--key is missing; give the column of students.csv that has the labels of mode" in text


def test_messages_name_the_options(tables):
    Path("unknown.csv").write_text("student,gender\n" + "".join(
        f"{name},{'' if name == 's03' else name[-1]}\n" for name in STUDENTS
    ))  # fmt: skip
    text = run(*FIT_SCORES, "--sensitive", "unknown.csv", code=2)
    assert "1 missing values (student s03)" in text
    assert "(--missing exclude)" in text
    Path("few.csv").write_text("student,gender\ns00,f\ns01,m\n")
    text = run(*FIT_SCORES, "--sensitive", "few.csv", code=2)
    assert "(--missing exclude)" in text


def test_the_table_of_people_is_read_once(tables, monkeypatch):
    shuffle_people()
    run(*FIT_SCORES, "--strength", 0.1)
    read = []

    def count(path, **options):
        read.append(str(path))
        return read_table(path, **options)

    read_table = module.read_table
    monkeypatch.setattr(module, "read_table", count)
    run("audit", "run", "--attackers", "linear")
    run("transform", "run", "scores.csv", "--sensitive", "students.csv", "--out", "rows.csv")
    assert read == ["students.csv", "students.csv"]


def test_labels_and_paths_survive_as_they_are(arrays):
    people = pd.read_csv("people.csv")
    people["person"] = [f"{i:03}" for i in range(40)]
    people.to_csv("people.csv", index=False)
    text = run("fit", "tensor.npy", "--out", "[red]x[/b]", *PEOPLE, "--max-iter", 3)
    assert "written to [red]x[/b]" in text
    assert "\n007," in (arrays / "[red]x[/b]" / "embedding.csv").read_text()
    run("audit", "[red]x[/b]", *PEOPLE, "--attackers", "linear")
    run("audit", "[red]x[/b]", "--attackers", "linear")
