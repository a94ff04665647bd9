import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, Fit, SensitiveFeatures, Status, TensorData, datasets

pytest.importorskip("typer")
from typer.testing import CliRunner

from parafair.cli import app

runner = CliRunner()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a small data set in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    data = datasets.synthetic(0, shape=(40, 8, 6), rank=3)
    np.save("tensor.npy", data.tensor)
    people = pd.DataFrame(
        {"person": [f"p{i}" for i in range(40)], "group": data.sensitive_features}
    )
    people.to_csv("people.csv", index=False)
    people.assign(person=range(40)).to_csv("numbered.csv", index=False)
    return tmp_path


def run(*arguments, code=0):
    """Run a command; return everything it printed, on one line."""
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


FIT = ("fit", "tensor.npy", "--rank", 2, "--out", "run")
PEOPLE = ("--sensitive", "people.csv", "--key", "person")


def test_end_to_end(folder):
    text = run(*FIT, *PEOPLE, "--method", "hsic", "--strength", 2, "--seed", 3)
    assert "residual" in text
    assert "written to run" in text
    assert sorted(path.name for path in (folder / "run").iterdir()) == [
        "embedding.csv",
        "factor_mode_1.csv",
        "factor_mode_2.csv",
        "factors.safetensors",
        "fit.json",
        "model.json",
    ]
    table = pd.read_csv("run/embedding.csv")
    assert list(table.columns) == ["person", "component_0", "component_1"]
    assert table["person"].tolist() == [f"p{i}" for i in range(40)]
    fit = Fit.load("run")
    np.testing.assert_allclose(table.iloc[:, 1:], fit.cp.factors[0], rtol=1e-12)
    record = json.loads((folder / "run" / "fit.json").read_text())
    assert record["settings"]["seed"] == 3
    assert record["settings"]["method"] == {"name": "HSIC", "strength": 2.0}
    assert record["settings"]["parafair"]
    inputs = record["settings"]["inputs"]
    assert (inputs["tensor"], inputs["sensitive"]) == ("tensor.npy", "people.csv")
    assert (inputs["key"], inputs["missing"], inputs["test"]) == ("person", "error", None)
    assert record["status"] == "CONVERGED"
    # The same from Python is the same.
    people = pd.read_csv("people.csv")
    model = FairCP(2, method="hsic", strength=2.0, random_state=3)
    model.fit(np.load("tensor.npy"), sensitive_features=people["group"])
    np.testing.assert_array_equal(model.embedding_, fit.cp.factors[0])

    shown = run("audit", "run", *PEOPLE, "--json", "audit.json")
    assert "forest" in shown
    audit = json.loads((folder / "audit.json").read_text())
    assert f"leakage {audit['leakage']:.3f}" in shown


def test_audit_follows_the_key_not_the_order(folder):
    run(*FIT, *PEOPLE, "--method", "none")
    run("audit", "run", *PEOPLE, "--json", "one.json")
    pd.read_csv("people.csv").sample(frac=1, random_state=0).to_csv("shuffled.csv", index=False)
    run("audit", "run", "--sensitive", "shuffled.csv", "--key", "person", "--json", "two.json")
    assert (folder / "one.json").read_text() == (folder / "two.json").read_text()


def test_parquet_and_npy(folder):
    pytest.importorskip("pyarrow")
    run(*FIT, *PEOPLE, "--method", "none", "--format", "parquet")
    table = pd.read_parquet("run/embedding.parquet")
    assert len(table) == 40
    run("audit", "run", *PEOPLE)
    np.save("rows.npy", table.iloc[:, 1:].to_numpy())
    run("audit", "rows.npy", "--sensitive", "people.csv", "--columns", "group")


def test_gradient_solver_with_its_steps(folder):
    run(
        *FIT, *PEOPLE, "--method", "fatr", "--strength", 0.1, "--solver", "gradient",
        "--step-sizes", "3,1", "--inner-steps", 50, "--max-iter", 3, "--tol", 0,
    )  # fmt: skip
    solver = Fit.load("run").settings["solver"]
    assert solver == {
        "name": "GradientBCD", "step_sizes": [3.0, 1.0], "inner_steps": 50, "cap": True,
    }  # fmt: skip


def test_stated_kinds_and_chosen_columns(folder):
    people = pd.read_csv("people.csv")
    people["band"], people["constant"] = np.arange(40) % 4, 1
    people.to_csv("people.csv", index=False)
    run(*FIT, *PEOPLE, "--columns", "group,band", "--kind", "band=numeric", "--max-iter", 3)
    kinds = {column["name"]: column["kind"] for column in Fit.load("run").settings["sensitive"]}
    assert kinds == {"group": "categorical", "band": "numeric"}
    run(*FIT, *PEOPLE, "--force", "--columns", "band", "--max-iter", 3)
    (column,) = Fit.load("run").settings["sensitive"]
    assert column == {"name": "band", "kind": "categorical", "categories": ["0", "1", "2", "3"]}


def test_not_converging_is_said(folder):
    text = run(*FIT, "--method", "none", "--max-iter", 2)
    assert "Warning: FairCP after 2 rounds: the round limit came first" in text


def test_an_existing_run_is_kept_unless_forced(folder):
    run(*FIT, "--method", "none")
    before = (folder / "run" / "fit.json").read_bytes()
    text = run(*FIT, "--method", "none", "--seed", 1, code=2)
    assert "already holds files" in text
    assert (folder / "run" / "fit.json").read_bytes() == before
    run(*FIT, "--method", "none", "--seed", 1, "--force")
    assert (folder / "run" / "fit.json").read_bytes() != before
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("tensor.npy", b"\x93NUMPY\x01", FIT, "could not be read as a NumPy array"),
        ("tensor.npy", "hello", FIT, "could not be read as a NumPy array"),
        ("people.csv", "", (*FIT, *PEOPLE), "could not be read as a table"),
        ("people.csv", "person,group\n", (*FIT, *PEOPLE), "holds no rows"),
        (
            "people.csv",
            b"person,group\n\xff\xfe,1\n",
            (*FIT, *PEOPLE),
            "is not encoded as UTF-8",
        ),
        ("people.csv", "person,group\np0,a\np1,b\n", (*FIT, *PEOPLE), "has 2 rows but mode 0"),
    ],
)
def test_unreadable_files_are_named(folder, name, content, arguments, message):
    write(folder / name, content)
    text = run(*arguments, "--method", "hsic" if "people" in name else "none", code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (folder / "run").exists()


def test_pickled_arrays_are_not_loaded(folder):
    np.save("tensor.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "could not be read as a NumPy array" in run(*FIT, "--method", "none", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "no.npy", "--rank", 2, "--out", "run"), "no.npy does not exist"),
        (("fit", "people.csv", "--rank", 2, "--out", "run"), "such as --modes student,test"),
        ((*FIT, "--value", "group"), "--value and --duplicates are for tables"),
        ((*FIT, "--mode", "persn", *PEOPLE), "--mode must be one of mode_0, mode_1, mode_2"),
        ((*FIT, "--mode", 3, *PEOPLE), "--mode must be between 0 and 2"),
        ((*FIT,), "needs sensitive_features, but none were given"),
        ((*FIT, *PEOPLE, "--method", "khsik"), "did you mean 'khsic'"),
        ((*FIT, *PEOPLE, "--columns", "grup"), "did you mean 'group'"),
        ((*FIT, "--sensitive", "people.csv", "--key", "persn"), "did you mean 'person'"),
        ((*FIT, "--sensitive", "people.csv"), "'person' has a different value for each"),
        ((*FIT, "--sensitive", "numbered.csv"), "'person' has another whole number for every"),
        ((*FIT, *PEOPLE, "--kind", "group"), "--kind must look like column=numeric"),
        ((*FIT, "--method", "none", "--key", "person"), "need the table of people: --sensitive"),
        ((*FIT, *PEOPLE, "--columns", "group,group"), "one or more different names"),
        ((*FIT, *PEOPLE, "--device", "gpu"), "device='gpu' cannot be used here"),
        ((*FIT, *PEOPLE, "--format", "xls"), "--format must be one of csv, parquet"),
        (
            (*FIT, *PEOPLE, "--solver", "gradient", "--step-sizes", "a,b"),
            "--step-sizes must be num",
        ),
        ((*FIT, *PEOPLE, "--solver", "gradient", "--step-sizes", "1"), "must be two positive"),
        (("audit", "run", "--sensitive", "people.csv"), "does not exist"),
        (("audit", "people.csv", "--sensitive", "people.csv"), "columns that are not numbers"),
        (("datasets", "synthetik", "--out", "d"), "did you mean 'synthetic'"),
        (("datasets", "synthetic"), "--out is missing"),
        (
            ("datasets", "oulad", "--out", "d", "--rank", 3),
            "takes no --rank; its options are --data",
        ),
        (
            ("datasets", "synthetic", "--out", "d", "--data", "."),
            "takes no --data; its options are --seed, --shape, --rank",
        ),
        (("datasets", "oulad", "--out", "d", "--data", "."), "must hold oulad/assessments.csv"),
        (
            ("datasets", "synthetic", "--out", "d", "--shape", "3,x"),
            "--shape must be whole numbers",
        ),
    ],
)
def test_bad_arguments_get_one_clear_line(folder, arguments, message):
    text = run(*arguments, code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (folder / "run").exists()


def test_audit_checks_the_key(folder):
    run(*FIT, *PEOPLE, "--method", "none")
    people = pd.read_csv("people.csv")
    people.iloc[1:].to_csv("few.csv", index=False)
    text = run("audit", "run", "--sensitive", "few.csv", "--key", "person", code=2)
    assert "few.csv: table has no row for 1 of 40 people, such as person p0" in text
    pd.concat([people, people.iloc[:1]]).to_csv("twice.csv", index=False)
    text = run("audit", "run", "--sensitive", "twice.csv", "--key", "person", code=2)
    assert "more than one row for person p0" in text
    (folder / "audit.json").write_text("{}")
    text = run("audit", "run", *PEOPLE, "--json", "audit.json", code=2)
    assert "already exists" in text


def test_labels_and_paths_survive_as_they_are(folder):
    people = pd.read_csv("people.csv")
    people["person"] = [f"{i:03}" for i in range(40)]
    people.to_csv("people.csv", index=False)
    text = run("fit", "tensor.npy", "--rank", 2, "--out", "[red]x[/b]", *PEOPLE, "--max-iter", 3)
    assert "written to [red]x[/b]" in text
    assert "\n007," in (folder / "[red]x[/b]" / "embedding.csv").read_text()
    run("audit", "[red]x[/b]", *PEOPLE)


def test_force_never_deletes_the_input(folder):
    run("datasets", "synthetic", "--out", "data", "--shape", "20,4,3", "--rank", 2)
    text = run(
        "fit",
        "data/tensor.npy",
        "--rank",
        2,
        "--method",
        "none",
        "--out",
        "data",
        "--force",
        code=2,
    )
    assert "holds other files" in text
    assert (folder / "data" / "tensor.npy").exists()


def test_keys_are_checked_before_the_fit(folder):
    people = pd.read_csv("people.csv")
    people.loc[1, "person"] = "p0"
    people.to_csv("people.csv", index=False)
    assert "more than one row for person p0" in run(*FIT, *PEOPLE, code=2)


def test_datasets_are_listed_and_written(folder):
    assert "synthetic" in run("datasets")
    run("datasets", "synthetic", "--out", "data", "--shape", "10,4,3", "--rank", 2, "--seed", 1)
    expected = datasets.synthetic(1, shape=(10, 4, 3), rank=2)
    np.testing.assert_array_equal(np.load("data/tensor.npy"), expected.tensor)
    assert (
        pd.read_csv("data/sensitive.csv")["group"].tolist() == expected.sensitive_features.tolist()
    )


def test_real_data_is_listed_and_written(folder, real_data):
    listed = run("datasets", "--data", real_data)
    assert all(name in listed for name in ("contraceptive", "oulad"))
    run("datasets", "contraceptive", "--out", "women", "--data", real_data)
    assert np.load("women/tensor.npy").shape == (1473, 9)
    assert pd.read_csv("women/sensitive.csv")["group"].value_counts()["not working"] == 1104
    run("datasets", "oulad", "--out", "scores", "--data", real_data)
    data = TensorData.from_table(
        "scores/entries.csv", modes=["student", "module", "assessment"], value="value"
    )
    people = SensitiveFeatures.from_table(
        "scores/sensitive.csv", ["gender"], key="student", labels=data.labels[0]
    )
    assert len(people) == len(data.labels[0])


FRONTIER = (
    "frontier", "tensor.npy", "--sensitive", "people.csv", "--key", "person", "--rank", 2,
    "--out", "run", "--strengths", "0.1,10", "--attackers", "linear",
)  # fmt: skip


def test_a_frontier_and_its_page(folder):
    printed = run(*FRONTIER, "--methods", "invariant,correlation-removal")
    assert "picked" in printed
    assert "parafair report run" in printed
    assert len(list(folder.glob("run/*/*/audit.json"))) == 3
    run("report", "run", "--format", "png", "--title", "<b>Title</b>")
    page = (folder / "run" / "report.html").read_text()
    assert "&lt;b&gt;Title" in page
    assert "<b>Title" not in page
    assert (folder / "run" / "frontier.png").stat().st_size > 10_000


def test_a_frontier_goes_on_and_does_not_mix(folder):
    run(*FRONTIER)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("run/*/*/fit.json")}
    run(*FRONTIER[:-4], "--strengths", "0.1,1,10", "--attackers", "linear")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(folder.glob("run/*/*/fit.json"))) == 3
    assert "other settings (rank: 2 there, 3 now)" in run(*FRONTIER, "--rank", 3, code=2)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*FRONTIER, "--methods", "fair"), "--methods must be one of"),
        ((*FRONTIER, "--strengths", "x"), "--strengths must be numbers separated by commas"),
        ((*FRONTIER, "--attackers", "nobody"), "nobody"),
        (("report", "nowhere"), "nowhere is not a folder"),
        (("report", ".", "--format", "gif"), "--format must be one of"),
    ],
)
def test_bad_frontiers_are_refused(folder, command, message):
    assert message in run(*command, code=2)
    assert not list(folder.glob("run/*/*/fit.json"))


def test_help_teaches():
    assert "parafair fit data/tensor.npy" in run("--help")
    assert "Ctrl-C" in run("fit", "--help")
    assert "parafair" in run("--version")


def drain(terminal):
    """Read until the other end is closed."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1000):
            pass


def test_ctrl_c_leaves_a_usable_result(folder):
    command = [
        sys.executable, "-m", "parafair", "fit", "tensor.npy", "--rank", "2", "--out", "run",
        "--sensitive", "people.csv", "--key", "person", "--max-iter", "100000000",
        "--tol", "0", "--solver", "gradient",
    ]  # fmt: skip
    # The bar is drawn on terminals only, so give it one and wait for its first round.
    terminal, child = pty.openpty()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=child, env={**os.environ, "TERM": "xterm"}
    )
    os.close(child)
    try:
        seen, deadline = b"", time.monotonic() + 60
        while b"residual" not in seen and time.monotonic() < deadline:
            seen += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        # A terminal that nobody reads fills up, and whoever writes to it waits.
        threading.Thread(target=drain, args=[terminal], daemon=True).start()
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 130, out
    assert b"interrupted" in out
    fit = Fit.load(folder / "run")
    assert fit.status is Status.INTERRUPTED
    assert fit.n_iter > 0
    assert len(pd.read_csv("run/embedding.csv")) == 40


def test_an_array_without_a_key_is_audited_by_position(folder):
    run(*FIT, "--sensitive", "people.csv", "--columns", "group", "--method", "none")
    audit = ("audit", "run", "--columns", "group", "--attackers", "linear", "--sensitive")
    assert run(*audit, "people.csv") == run(*audit, "numbered.csv", "--key", "person")


def test_the_help_tells_when_there_is_a_ridge():
    text = " ".join(run("fit", "--help").replace("│", " ").split())
    assert "by default 3 if entries are missing and some index has fewer than 10" in text


def test_what_is_left_out_is_shown_as_it_is(folder, monkeypatch):
    left = SimpleNamespace(claims=(), page="page.md", left_out={"figure-2": "no file [/b] here"})
    monkeypatch.setattr("parafair.cli.reproducing.reproduce_paper", lambda *_, **__: left)
    assert "figure-2 left out: no file [/b] here" in run("reproduce", "--quick", code=2)
