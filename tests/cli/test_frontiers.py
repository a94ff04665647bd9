import json
import shutil

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, frontier
from parafair.frontiers import load
from parafair.guarantees.statements import rounded_up
from parafair.stored import read_record
from tests.cli.conftest import PEOPLE, SCORES, STUDENTS, run
from tests.test_temporaries import name_of_killed

LINEAR = ("--attackers", "linear")
FRONTIER = (
    "frontier", "tensor.npy", *PEOPLE, "--rank", 2, "--out", "run", *LINEAR,
    "--tol", 0.001, "--strengths", "0.1,10",
)  # fmt: skip
CURVE = (
    "frontier", *SCORES, "--methods", "none,invariant", "--strengths", "30.0", *LINEAR,
    "--tol", 0.001, "--out", "curve",
)  # fmt: skip


def test_a_frontier_and_its_page(arrays):
    printed = run(*FRONTIER, "--methods", "invariant,correlation-removal")
    found = load("run")
    for point in found.efficient:
        assert point.verdict(0.05).value in printed
    assert "verdict at --max-leakage 0.05: " in printed
    assert "parafair report run" in printed
    assert len(list(arrays.glob("run/*/*/audit.json"))) == 3
    run("report", "run", "--format", "png", "--title", "<b>Title</b>")
    page = (arrays / "run" / "report.html").read_text()
    assert "&lt;b&gt;Title" in page
    assert "<b>Title" not in page
    assert (arrays / "run" / "frontier.png").stat().st_size > 10_000


@pytest.mark.slow
def test_noises_are_an_axis_of_the_frontier(arrays):
    printed = run(*FRONTIER, "--noises", "0.1,1")
    found = load("run")
    assert {(p.member.strength, p.member.noise) for p in found.points} == {
        (strength, noise) for strength in (0.1, 10) for noise in (0.1, 1)
    }
    assert "Certified (every attacker of threat b) beside measured (threat a)" in printed
    for point in found.efficient:
        assert f"{rounded_up(point.certified()):.4f}" in printed
    before = {path: path.stat().st_mtime_ns for path in arrays.glob("run/*/*/fit.json")}
    run(*FRONTIER, "--noises", "1,2")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(load("run")) == 6
    run("report", "run", "--guarantee", "release", "--max-certified", 0.5)
    assert "exposure" in (arrays / "run" / "report.html").read_text()


@pytest.mark.slow
def test_a_certified_fit_is_picked(arrays):
    run(*FRONTIER, "--noises", "0.1,1,3")
    limits = {"max_leakage": 0.5, "guarantee": "release"}
    found = load("run")
    bounds = sorted(p.certified() for p in found.points if p.verdict(0.5).value == "passes")
    level = bounds[0] + 1e-4
    wanted = ("--max-leakage", 0.5, "--guarantee", "release", "--max-certified", level)
    printed = run("pick", "run", *wanted, "--out", "picked")
    best = found.best(**limits, max_certified=level)
    assert best.member.id in printed
    assert f"certified leakage (release) {rounded_up(best.certified()):.4f}" in printed
    model = FairCP.load("picked")
    assert (model.noise, model.strength) == (best.member.noise, best.member.strength)
    assert read_record(arrays / "picked" / "inputs.json")["max_certified"] == level
    text = run("pick", "run", *wanted[:-1], 0, "--out", "none", code=2)
    assert "no point that passes at --max-leakage 0.5 has a certified leakage" in text
    assert "use more noise" in text


def test_certificates_may_be_left_out(arrays):
    printed = run(*FRONTIER, "--certificates", "none")
    assert not list(arrays.glob("run/*/*/certificate.json"))
    assert "Certified" not in printed
    text = run("pick", "run", "--max-leakage", 1, "--guarantee", "release", "--out", "r", code=2)
    assert "no point has a certificate" in text


def test_a_frontier_is_that_of_python(arrays):
    run(
        *FRONTIER, "--solver", "gradient", "--step-sizes", "3,1", "--inner-steps", 20, "--init",
        "normal", "--dtype", "float32", "--max-iter", 5, "--tol", 0, "--methods", "hsic",
        "--seeds", "3,5",
    )  # fmt: skip
    (settings,) = load("run").settings.values()
    assert settings["params"]["solver"]["step_sizes"] == [3.0, 1.0]
    assert (settings["params"]["init"], settings["dtype"]) == ("normal", "float32")
    assert {point.member.seed for point in load("run").points} == {3, 5}


def test_a_frontier_of_python_is_continued(arrays):
    people = pd.read_csv("people.csv")
    model, audits = (
        FairCP(2, tol=1e-3),
        {"attackers": ["linear"], "repeats": 1, "permutations": 100},
    )
    # Without a key the shell has no labels of people, as Python has none here.
    frontier(
        model, np.load("tensor.npy"), sensitive_features=people[["group"]], strengths=[0.1, 10],
        audits=audits, out="run",
    )  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in arrays.glob("run/*/*/fit.json")}
    run(*FRONTIER[:2], "--sensitive", "people.csv", "--sensitive-columns", "group", *FRONTIER[6:])
    assert {path: path.stat().st_mtime_ns for path in arrays.glob("run/*/*/fit.json")} == before


def test_a_frontier_is_continued_and_does_not_mix(arrays):
    run(*FRONTIER)
    before = {path: path.stat().st_mtime_ns for path in arrays.glob("run/*/*/fit.json")}
    run(*FRONTIER[:-1], "0.1,1,10")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(arrays.glob("run/*/*/fit.json"))) == 3
    text = run(*FRONTIER, "--rank", 3, code=2)
    assert "other settings (params rank: 2 there, 3 now)" in text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*FRONTIER, "--methods", "fair"), "--methods must be one of invariant, khsic"),
        ((*FRONTIER, "--strengths", "x"), "--strengths must be numbers separated by commas"),
        ((*FRONTIER, "--seeds", "1,x"), "--seeds must be whole numbers separated by commas"),
        ((*FRONTIER, "--noises", "x"), "--noises must be numbers separated by commas"),
        ((*FRONTIER, "--noises", "0.1,99"), "each of noises must be a finite number"),
        ((*FRONTIER, "--certificates", "yes"), "--certificates must be one of auto, all, none"),
        ((*FRONTIER, "--rank", "2,3"), "--rank must be one value, got 2,3; use parafair tune"),
        ((*FRONTIER, "--inner-steps", 3), "--inner-steps is for --solver gradient, but"),
        ((*FRONTIER, "--attackers", "nobody"), "every name in --attackers must be one of linear"),
        ((*FRONTIER, "--max-leakage", -1), "--max-leakage must be a number from 0 to 1, got -1"),
        (
            ("frontier", "tensor.npy", "--out", "run"),
            "--sensitive is missing; give the table of people, which audits need",
        ),
        ((*FRONTIER, "--out", "x" * 400), "--out must be a path that can be looked up, got a str"),
        (("report", "nowhere"), "nowhere is no folder"),
        (("report", ".", "--format", "gif"), "--format must be one of png, pdf, svg; got 'gif'"),
        (("pick", "nowhere", "--out", "r"), "nowhere is no folder"),
    ],
)
def test_bad_frontiers_are_refused(arrays, command, message):
    assert message in run(*command, code=2)
    assert not list(arrays.glob("run/*/*/fit.json"))


def test_a_frontier_of_a_table_has_errors_and_a_page(tables):
    people = pd.read_csv("students.csv")
    people.loc[people["student"] == "s03", "gender"] = None
    people.to_csv("students.csv", index=False)
    printed = run(*CURVE, "--test-size", 0.2, "--missing", "exclude")
    assert "RMSE" in printed
    assert "held-out entries; without people" in printed
    assert len(list(tables.glob("curve/*/*/evaluation.json"))) == 2
    text = run(*CURVE, "--missing", "exclude", code=2)
    assert "holds results with other settings (--test-size: 0.2 there, None now)" in text
    run("report", "curve")
    page = (tables / "curve" / "report.html").read_text()
    for text in ("student (people)", "algebra", "1 of 40 student", "fitted entries per student"):
        assert text in page


def test_a_frontier_does_not_change_the_folder_of_a_fit(arrays):
    run("fit", "tensor.npy", "--method", "none", "--max-iter", 1, "--out", "fit")
    before = (arrays / "fit" / "inputs.json").read_bytes()
    text = run(*FRONTIER, "--out", "fit", code=2)
    assert "inputs.json already exists, but fit holds no frontier" in text
    assert (arrays / "fit" / "inputs.json").read_bytes() == before


def test_nothing_is_replaced_without_being_asked_to(arrays):
    (arrays / "run" / "invariant").mkdir(parents=True)
    (arrays / "run" / "inputs.json").write_text("precious")
    assert "inputs.json already exists, but run holds no frontier" in run(*FRONTIER, code=2)
    assert (arrays / "run" / "inputs.json").read_text() == "precious"
    (arrays / "run" / "inputs.json").rename(arrays / "run" / "invariant" / "model.json")
    assert "invariant already holds files; choose another folder" in run(*FRONTIER, code=2)
    assert (arrays / "run" / "invariant" / "model.json").read_text() == "precious"


def test_a_report_replaces_files_only_if_asked(arrays):
    pytest.importorskip("matplotlib")
    run(*FRONTIER)
    (arrays / "precious.csv").write_text("precious")
    command = ("report", "run", "--out", "precious.csv")
    assert "precious.csv already exists; choose another file" in run(*command, code=2)
    (arrays / "frontier.png").write_text("precious")
    command = ("report", "run", "--out", "page.html", "--format", "png")
    assert "frontier.png already exists; choose another file" in run(*command, code=2)
    assert not (arrays / "page.html").exists()
    run(*command, "--force")
    assert (arrays / "frontier.png").read_bytes().startswith(b"\x89PNG")
    assert (arrays / "precious.csv").read_text() == "precious"


def test_an_interrupted_frontier_can_be_continued(arrays, monkeypatch):
    def interrupted(*arguments, **settings):
        frontier(*arguments, **{**settings, "strengths": (0.1,)})
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.cli.frontiers.frontier", interrupted)
    text = run(*FRONTIER, code=130)
    assert "interrupted; finished fits are in run, and the same command continues" in text
    assert json.loads((arrays / "run" / "inputs.json").read_text())["key"] == "person"
    monkeypatch.undo()
    monkeypatch.chdir(arrays)
    run(*FRONTIER)


def test_a_frontier_without_fits_leaves_nothing(arrays, monkeypatch):
    def failed(*arguments, **settings):
        raise ValueError("no memory")

    monkeypatch.setattr("parafair.cli.frontiers.frontier", failed)
    assert "no memory" in run(*FRONTIER, code=2)
    assert not (arrays / "run").exists()


def test_a_frontier_killed_before_its_first_fit_can_be_continued(arrays, monkeypatch):
    seen = []

    def begun(*arguments, out, **settings):
        seen.append(sorted(path.name for path in out.iterdir()))
        shutil.copytree(out, "as it was", dirs_exist_ok=True)
        raise ValueError("no memory")

    monkeypatch.setattr("parafair.cli.frontiers.frontier", begun)
    run(*FRONTIER, code=2)
    (arrays / "as it was").rename(arrays / "run")
    (arrays / "run" / name_of_killed("invariant") / "content").mkdir(parents=True)
    assert "no memory" in run(*FRONTIER, code=2)
    assert seen == [["inputs.json", "manifest.json"]] * 2


@pytest.mark.slow
def test_the_record_of_the_data_of_a_frontier_is_checked(arrays):
    run(*FRONTIER)
    run(*FRONTIER[:-1], "0.1,1,10", "--out", "other")
    inputs = arrays / "run" / "inputs.json"
    whole = inputs.read_bytes()
    inputs.write_bytes(whole.replace(b"person", b"persom"))
    pick = ("pick", "run", "--max-leakage", 1, "--out", "picked")
    assert "inputs.json does not match its checksum" in run(*pick, code=2)
    inputs.unlink()
    assert "inputs.json is missing" in run(*pick, code=2)
    assert "inputs.json is missing" in run(*FRONTIER, code=2)
    inputs.write_bytes(whole)
    text = run(*FRONTIER, "--mode", 0, "--missing", "exclude", code=2)
    assert "other settings (missing: 'error' there, 'exclude' now)" in text


def test_nothing_is_picked_if_no_fit_passes(arrays):
    printed = run(*FRONTIER[:-1], "0.1,0.2")
    assert printed.count("leaks") >= 2  # the table, and the fit that leaks the least
    text = run("pick", "run", "--out", "r", code=2)
    assert "no point passes at --max-leakage 0.05; the smallest leakage is" in text
    assert not (arrays / "r").exists()


def test_a_picked_fit_becomes_a_run(tables):
    run(*CURVE)
    text = run("pick", "curve", "--max-leakage", 1, "--out", "run")
    curve = load("curve")
    point = curve.best(max_leakage=1)
    assert f"{point.member.id}: residual {point.residual:.4f}, leakage" in text
    assert f"verdict at --max-leakage 1: {point.verdict(1).value}" in text
    model, labels = FairCP.load("run"), pd.read_csv(tables / "run" / "embedding.csv")["student"]
    np.testing.assert_array_equal(model.embedding_, curve.pick(max_leakage=1).embedding_)
    assert labels.tolist() == STUDENTS
    inputs = read_record(tables / "run" / "inputs.json")
    assert (inputs["frontier"], inputs["max_leakage"]) == ("curve", 1.0)
    recorded = read_record(tables / "curve" / "inputs.json")
    assert inputs == {**recorded, "frontier": "curve", "max_leakage": 1.0}
    assert "already holds files" in run("pick", "curve", "--out", "run", code=2)
    text = run("pick", "curve", "--max-leakage", -2, "--out", "r", code=2)
    assert "--max-leakage must be a number from 0 to 1, got -2" in text
    assert not (tables / "r").exists()
    # Later commands find people and entries as after `parafair fit`.
    run("predict", "run", "scores.csv", "--out", "predictions.csv")
    run("audit", "run", *LINEAR)
    run("transform", "run", "scores.csv", "--allow-leak", "--out", "rows.csv")
