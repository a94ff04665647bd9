import pandas as pd
import pytest

from parafair import FairCP, FairTucker
from tests.cli.conftest import FIT, FIT_SCORES, MODES, run

SIDE = ("--side", "hours.csv")


@pytest.fixture
def hours(tables):
    """A table of the students' hours, not all of them, and of others."""
    people = pd.read_csv("students.csv")
    table = pd.DataFrame({"student": people["student"], "sleep": people["age"] % 7 + 4})
    table = table.assign(work=table["sleep"] ** 2, note="text").iloc[3:]
    extra = pd.DataFrame({"student": ["zz"], "sleep": [1], "work": [1], "note": ["text"]})
    pd.concat([table, extra]).to_csv("hours.csv", index=False)
    extra.drop(columns="note").to_csv("others.csv", index=False)
    return tables


@pytest.mark.slow
def test_fit_and_transform_with_a_table(hours):
    chosen = (*SIDE, "--side-columns", "sleep,work", "--side-weight", 0.5)
    told = run(*FIT_SCORES, *chosen, "--method", "none")
    assert "residual of the side information" in told
    model = FairCP.load("run")
    assert model.side_weight == 0.5
    factor = pd.read_csv("run/side_factor.csv")
    assert factor["column"].tolist() == ["sleep", "work"]
    assert factor.shape == (2, 3)
    transform = ("transform", "run", "scores.csv", *MODES)
    run(*transform, *SIDE, "--out", "with.csv")
    run(*transform, "--out", "without.csv")
    one, two = pd.read_csv("with.csv"), pd.read_csv("without.csv")
    assert not one.equals(two)
    assert one["student"].equals(two["student"])


@pytest.mark.slow
def test_a_table_of_counts(hours):
    chosen = (*SIDE, "--side-columns", "sleep,work", "--side-loss", "poisson")
    told = run(*FIT_SCORES, *chosen, "--method", "none")
    assert "deviance ratio of the side information" in told
    assert FairCP.load("run").side_loss == "poisson"


@pytest.mark.slow
def test_a_population_is_certified_with_its_side_information(hours):
    chosen = (*SIDE, "--side-columns", "sleep,work", "--method", "none", "--noise", 0.5)
    kept = pd.read_csv("scores.csv")
    later = kept["student"].isin(sorted(set(kept["student"]))[::3])
    kept[~later].to_csv("scores.csv", index=False)
    kept[later].to_csv("later.csv", index=False)
    run(*FIT_SCORES, *chosen)
    new = ("--new-tensor", "later.csv", "--new-sensitive", "students.csv")
    certified = ("certify", "run", *new, "--draws", 100)
    assert "follow from their entries and their side information" in run(
        *certified, "--new-side", "hours.csv"
    )
    assert "side is missing" in run(*certified, code=2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (SIDE, "columns that are not numbers: note"),
        ((*SIDE, "--side-columns", "slep"), "--side-columns must be one of"),
        ((*SIDE, "--side-columns", "sleep", "--side-key", "name"), "--side-key must be one of"),
        (("--side-columns", "sleep"), "add --side"),
        ((*SIDE, "--side-columns", "sleep", "--side-key", "sleep"), "more than one row for sleep"),
        (("--side", "others.csv"), "none of the people of the data"),
        ((*SIDE, "--side-columns", "sleep", "--method", "khsic"), "depends on the scale"),
        ((*SIDE, "--side-columns", "sleep", "--side-weight", -1), "--side-weight must be"),
        ((*SIDE, "--side-columns", "sleep", "--side-loss", "cauchy"), "--side-loss must be one of"),
        ((*SIDE, "--side-columns", "sleep", "--side-loss", "bernoulli"), "side has"),
        (("--side", "nothing.csv"), "nothing.csv"),
    ],
)
def test_wrong_tables_are_refused_and_nothing_is_written(hours, options, match):
    assert match in run(*FIT_SCORES, *options, code=2)
    assert not (hours / "run").exists()


def test_rows_of_an_array_are_in_its_order(arrays):
    people = pd.read_csv("people.csv")
    people.assign(x=range(40))[["x"]].to_csv("x.csv", index=False)
    run(*FIT, "--method", "none", "--max-iter", 3, "--tol", 0.1, "--side", "x.csv")
    assert FairCP.load("run").side_factor_.shape == (1, 2)
    people.assign(x=range(40)).iloc[:9][["x"]].to_csv("x.csv", index=False)
    assert "--side has 9 rows but tensor has 40 people" in run(
        *FIT, "--method", "none", "--side", "x.csv", "--force", code=2
    )
    assert FairCP.load("run").side_factor_.shape == (1, 2)


@pytest.mark.slow
def test_every_command_takes_a_run_of_a_tucker_model(tables):
    fit = [part for part in FIT_SCORES if part not in ("--rank", 2)]
    run(*fit, "--ranks", "2,2,1", "--test-size", 0.2)
    model = FairTucker.load("run")
    assert model.tucker_.ranks == (2, 2, 1)
    assert pd.read_csv("run/embedding.csv").columns[0] == "student"
    assert pd.read_csv("run/factor_module.csv").shape == (4, 3)
    assert len(pd.read_csv("run/core.csv")) == 4
    cells = pd.read_csv("scores.csv").head(3).drop(columns="score")
    cells.to_csv("cells.csv", index=False)
    run("predict", "run", "cells.csv", "--out", "predicted.csv")
    expected = model.predict(cells.astype({"test": int}))
    assert pd.read_csv("predicted.csv")["prediction"].to_list() == pytest.approx(list(expected))
    run("transform", "run", "scores.csv", "--allow-leak", "--out", "rows.csv")
    assert pd.read_csv("rows.csv").shape == (40, 3)
    quick = ("--attackers", "linear", "--folds", 2, "--repeats", 1, "--permutations", 2)
    students = ("--sensitive", "students.csv", "--sensitive-columns", "gender")
    assert "gender" in run("audit", "run", *students, *quick)
    run("certify", "run")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--ranks", "2,2,1", "--rank", 3), "--rank is for CP decompositions"),
        (("--ranks", "2,2,1", "--rank", 2), "--rank is for CP decompositions"),
        (("--ranks", "2,2,1", "--loss", "cauchy"), "loss must be one of"),
        (("--ranks", "2,2,1", "--loss", "poisson-identity"), "non-negative"),
        (("--ranks", "2,2"), "one number for each of the 3 modes"),
        (("--ranks", "9,9,9"), "at most the sizes of the modes"),
        (("--ranks", "2,x,1"), "--ranks"),
        (("--ranks", "0,2,1"), "each of ranks must be"),
    ],
)
def test_wrong_ranks_are_refused(tables, options, match):
    fit = [part for part in FIT_SCORES if part not in ("--rank", 2)]
    assert match in run(*fit, *options, code=2)
