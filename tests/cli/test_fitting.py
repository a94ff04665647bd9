import json
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, Fit, split_cells
from parafair.audits.evaluation import evaluate_predictions
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted, ParafairWarning
from parafair.solvers import GradientBCD
from tests.cli.conftest import FIT, FIT_SCORES, PEOPLE, run


def test_a_fit_of_an_array_equals_that_of_python(arrays):
    text = run(*FIT, *PEOPLE, "--method", "hsic", "--strength", 2, "--random-state", 3)
    assert "iterations in" in text
    assert "written to run" in text
    table = pd.read_csv("run/embedding.csv")
    assert list(table.columns) == ["person", "component_0", "component_1"]
    assert table["person"].tolist() == [f"p{i}" for i in range(40)]
    fit, record = Fit.load("run"), json.loads((arrays / "run" / "model.json").read_text())
    np.testing.assert_allclose(table.iloc[:, 1:], fit.cp.factors[0], rtol=1e-12)
    assert record["seed"] == 3
    assert (record["params"]["method"], record["params"]["strength"]) == ("hsic", 2.0)
    assert record["versions"]["parafair"]
    assert json.loads((arrays / "run" / "fit.json").read_text())["status"] == "CONVERGED"
    model = FairCP(2, method="hsic", strength=2.0, random_state=3)
    model.fit(np.load("tensor.npy"), sensitive_features=pd.read_csv("people.csv")["group"])
    np.testing.assert_array_equal(model.embedding_, fit.cp.factors[0])


def test_a_fit_of_a_table_equals_that_of_python(tables):
    printed = run(
        *FIT_SCORES, "--strength", 0.5, "--test-size", 0.2, "--random-state", 3, "--ridge", 0.2
    )
    data = TensorData.from_table("scores.csv", modes=["student", "module", "test"], value="score")
    people = SensitiveFeatures.from_table(
        "students.csv", ["gender"], key="student", labels=data.labels[0]
    )
    split = split_cells(data, test_size=0.2, random_state=3)
    settings = {"max_iter": 20, "tol": 1e-2, "center": True, "random_state": 3}
    model = FairCP(2, strength=0.5, ridge=0.2, mode="student", **settings)
    model.fit(split.train, sensitive_features=people)
    loaded = FairCP.load("run")
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    predicted = model.predict(split.test)
    np.testing.assert_array_equal(loaded.predict(split.test), predicted)
    errors = evaluate_predictions(split.test, predicted, sensitive_features=people)
    record = json.loads((tables / "run" / "evaluation.json").read_text())
    assert record["test_size"] == 0.2
    assert record["scores"] == errors.to_list()
    assert f"{errors.value('rmse', 'f', feature='gender'):.4g}" in printed
    assert record["baseline"][0]["value"] > record["scores"][0]["value"]


def test_gradient_solver_with_its_steps(arrays):
    run(
        *FIT, *PEOPLE, "--method", "fatr", "--strength", 0.1, "--solver", "gradient",
        "--step-sizes", "3,1", "--inner-steps", 50, "--max-iter", 3, "--tol", 0,
    )  # fmt: skip
    assert FairCP.load("run").solver == GradientBCD((3.0, 1.0), 50)


def test_init_and_precision_reach_the_model(arrays):
    run(*FIT, *PEOPLE, "--init", "svd", "--dtype", "float32", "--max-iter", 3, "--tol", 0)
    model = FairCP.load("run")
    assert (model.init, model.dtype, model.embedding_.dtype) == ("svd", "float32", np.float32)


def test_not_converging_is_said(arrays):
    text = run(*FIT, "--method", "none", "--max-iter", 2)
    assert "Warning: FairCP after 2 iterations: did not converge in --max-iter iterations" in text


def test_a_strength_found_by_audits_has_a_verdict(arrays, monkeypatch):
    monkeypatch.setattr("parafair.model.strength.STAGES", ("quick",))
    moved = []
    monkeypatch.setattr("parafair.cli.shell.Bar.__call__", lambda _, *state: moved.append(state))
    text = run(
        *FIT, *PEOPLE, "--strength", "auto", "--max-leakage", 0.5, "--max-iter", 30, "--tol", 1e-2
    )
    model = FairCP.load("run")
    trials = model.selection_.trials
    for trial in trials:
        assert str(trial) in text
    chosen = model.selection_.strength
    (verdict,) = {
        t.verdict for t in trials if (t.strength, t.noise) == (chosen, model.selection_.noise)
    }
    assert f"strength {chosen:.3g} after {len(trials)} trials: {verdict}" in text
    audits = [done for done, _, what in moved if what == "attackers of an audit"]
    assert {1, 2} <= set(audits)  # audits take most of the time


def test_a_population_is_certified_after_the_fit(arrays):
    text = run(*FIT, *PEOPLE, "--strength", "auto", "--guarantee", "audit,population", code=2)
    assert "--guarantee must be audit, release or audit,release; got audit,population" in text
    assert "use parafair certify with --new-tensor and --new-sensitive" in text


def test_a_guarantee_is_asked_for(arrays):
    text = run(*FIT, *PEOPLE, "--strength", "auto", "--guarantee", "release", "--max-leakage", 0.2)
    model = FairCP.load("run")
    (trial,) = model.selection_.trials
    assert trial.certified <= 0.2
    assert str(trial) in text
    assert "shared places after 1 trials: certified" in text
    assert model.guarantee == ("release",)


def test_noise_is_set_and_its_cost_is_printed(arrays):
    short = ("--max-iter", 3, "--tol", 0)
    text = run(*FIT, *PEOPLE, *short, "--noise", 0.3)
    model = FairCP.load("run")
    before, after = (entry.residual for entry in model.fit_.history[-2:])
    assert f"noise 0.3 of the spread: residual {before:.4f} -> {after:.4f}" in text
    assert (model.noise, model.record_.noise) == (0.3, 0.3)
    assert "noise 0.1 of the spread" in run(*FIT, *PEOPLE, *short, "--force")
    text = run(*FIT, *PEOPLE, *short, "--noise", 0, "--force")
    assert "of the spread" not in text
    assert " ".join(text.split()).count("Warning: with --noise 0, differences far below") == 1
    assert "noise must be a finite number" in run(*FIT, *PEOPLE, "--noise", 11, "--force", code=2)


def test_ctrl_c_during_the_certificate_keeps_the_fit(arrays, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.cli.runs.certify", interrupted)
    text = run(*FIT, *PEOPLE, "--max-iter", 3, "--tol", 0, code=130)
    assert "interrupted: the fit is not certified" in text
    assert FairCP.load("run").n_iter_ == 3


def test_a_ridge_is_named_beside_the_penalty(tables):
    assert ", penalty and ridge " in run(*FIT_SCORES, "--method", "none")
    text = run(*FIT_SCORES, "--method", "none", "--ridge", 0, "--force")
    assert ", penalty " in text
    assert "and ridge" not in text


def test_a_ridge_that_no_held_out_entries_have_selected_does_not_say_so(arrays):
    np.save("tensor.npy", np.random.default_rng(0).poisson(2.0, size=(40, 4, 3)))
    text = run(*FIT, *PEOPLE, "--loss", "poisson", "--method", "none")
    assert "ridge 0.1, selected by --ridge auto" in text
    assert "held-out" not in text


def test_one_observation_per_person_works(tables):
    table = pd.read_csv("scores.csv").drop_duplicates("student")
    table.to_csv("scores.csv", index=False)
    run(*FIT_SCORES, "--strength", 0.1)
    assert np.isfinite(pd.read_csv("run/embedding.csv").iloc[:, 1:].to_numpy()).all()
    text = run(*FIT_SCORES, "--force", "--test-size", 0.2, code=2)
    assert "can be held out (one of every label stays in training" in text


@pytest.mark.parametrize("share", [1.5, 0])
def test_a_wrong_share_is_refused(tables, share):
    text = run(*FIT_SCORES, "--test-size", share, code=2)
    assert "--test-size must be a share above 0 and below 1" in text
    assert not (tables / "run").exists()


def test_an_interrupted_plain_stage_says_so(arrays, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("parafair.cli.shell.Bar.__call__", interrupt)
        text = run(*FIT, *PEOPLE, code=130)
    assert "interrupted after 1 iterations: the embedding is that of a plain decomposition" in text
    with pytest.warns(ParafairWarning, match="the fit in run was interrupted"):
        assert FairCP.load("run").record_.strength == 0
    text = run("audit", "run", "--attackers", "linear", "--permutations", 9)
    assert "Warning: the fit in run was interrupted after 1 iterations: its embedding is" in text


def test_an_interrupted_fit_with_a_checkpoint_is_continued(arrays, monkeypatch):
    short = ("--method", "none", "--max-iter", 5, "--tol", 0, "--no-certify")
    stored = (*FIT, *short, "--checkpoint", "state")
    with monkeypatch.context() as patch:
        patch.setattr("parafair.cli.shell.Bar.__call__", interrupt)
        text = run(*stored, code=130)
    assert (
        "this result is partial; the checkpoint in state stays: the same command with --force"
        in (text)
    )
    run(*stored, "--force")
    assert not (arrays / "state").exists()
    assert FairCP.load("run").n_iter_ == 5


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("folder", ["run", "run/state", "."])
def test_a_checkpoint_is_apart_from_the_result(arrays, folder):
    text = run(*FIT, *PEOPLE, "--checkpoint", folder, code=2)
    assert f"--checkpoint {folder} and --out run must be different folders" in text
    assert not (arrays / "run").exists()


def test_an_interruption_of_several_processes_writes_nothing(arrays, monkeypatch):
    def stopped(model, *_, **given):
        raise Interrupted(fit)

    fit = FairCP(2, method="none").fit(np.load("tensor.npy")).fit_
    monkeypatch.setattr("parafair.cli.fitting.process_group", lambda _: nullcontext("a group"))
    monkeypatch.setattr("parafair.cli.fitting.writes_files", lambda _: True)
    monkeypatch.setattr(FairCP, "fit", stopped)
    assert run(*FIT, code=130) == "interrupted; nothing was written"
    (arrays / "state").mkdir()
    (arrays / "state" / "current.json").touch()
    text = run(*FIT, "--checkpoint", "state", code=130)
    assert "the checkpoint in state stays, start again with the same settings" in text
    assert not (arrays / "run").exists()


def test_small_groups_are_a_warning_of_one_line(arrays):
    people = pd.read_csv("people.csv")
    people.loc[0, "group"] = "lone"
    people.to_csv("people.csv", index=False)
    text = run(*FIT, *PEOPLE, "--method", "hsic")
    assert text.count("Warning: sensitive feature 'group' has groups of one or two people") == 1


def test_minutes_without_a_checkpoint_are_refused(tables):
    text = run(*FIT_SCORES, "--checkpoint-minutes", 10, code=2)
    assert "--checkpoint-minutes is for fits with a checkpoint; add --checkpoint FOLDER" in text
    assert not (tables / "run").exists()
