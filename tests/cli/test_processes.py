"""`parafair fit` and `parafair frontier` under torchrun."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import parafair
from parafair import FairCP, sort_parquet
from parafair.frontiers import load

pytest.importorskip("typer")

from typer.testing import CliRunner

from parafair.cli import app
from parafair.cli.processes import process_group

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
OPTIONS = ["--rank", "2", "--method", "hsic", "--max-iter", "40", "--tol", "0", "--no-certify"]


@pytest.fixture
def data(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "tensor.npy", random.normal(size=(60, 5, 4)))
    lines = [f"{person},{'ab'[person % 2]}" for person in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["person,group", *lines]) + "\n")
    return ["tensor.npy", "--sensitive", "people.csv", "--key", "person"]


def surroundings():
    source = str(Path(parafair.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def run(command, folder):
    return subprocess.run(
        command, cwd=folder, env=surroundings(), capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_torchrun_writes_what_one_process_writes(data, tmp_path):
    one = run([sys.executable, "-m", "parafair", "fit", *data, *OPTIONS, "--out", "one"], tmp_path)
    assert one.returncode == 0, one.stderr
    two = run([*RUN, "-m", "parafair", "fit", *data, *OPTIONS, "--out", "two"], tmp_path)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("written to two") == 1  # process 0 alone
    first, second = (FairCP.load(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_allclose(second.embedding_, first.embedding_, rtol=1e-9, atol=1e-9)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_torchrun_fits_a_sorted_folder_within_its_memory(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    cells = np.argwhere(np.random.default_rng(1).random((60, 5, 4)) < 0.7)
    tensor = np.load(tmp_path / "tensor.npy")
    table = pandas.DataFrame(dict(zip(["person", "b", "c"], cells.T, strict=True)))
    table["x"] = tensor[tuple(cells.T)]
    table.to_parquet(tmp_path / "raw.parquet", index=False)
    sort_parquet(
        tmp_path / "raw.parquet", tmp_path / "sorted", modes=["person", "b", "c"], value="x"
    )
    # Few iterations: noise has a flat objective, where rounding decides.
    streamed = ["sorted", *data[1:], *OPTIONS, "--ridge", "1", "--max-iter", "8"]
    one = [sys.executable, "-m", "parafair", "fit", *streamed, "--out", "one"]
    assert run(one, tmp_path).returncode == 0
    two = [*RUN, "-m", "parafair", "fit", *streamed, "--memory", "2GB", "--out", "two"]
    done = run(two, tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (FairCP.load(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_allclose(second.embedding_, first.embedding_, rtol=1e-8, atol=1e-8)
    little = run([*two[:-4], "--memory", "200MB", "--out", "little"], tmp_path)
    assert "needs 0.60 GB in each process" in little.stderr


@pytest.mark.slow
def test_sigterm_stores_a_checkpoint_and_the_next_run_continues(data, tmp_path):
    endless = [*OPTIONS, "--max-iter", "20000", "--out", "run", "--checkpoint", "state"]
    command = [*RUN, "-m", "parafair", "fit", *data, *endless]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=surroundings(), stderr=subprocess.PIPE, text=True
    )
    time.sleep(30)
    process.send_signal(signal.SIGTERM)  # torchrun passes it on
    _, errors = process.communicate(timeout=120)
    assert "stored a checkpoint in state; start it again" in errors
    assert (tmp_path / "state" / "current.json").exists()
    assert not (tmp_path / "run").exists()
    other = run([*RUN, "-m", "parafair", "fit", *data, *OPTIONS, *endless[-4:]], tmp_path)
    assert other.returncode != 0
    assert "other settings (--max-iter: 20000 there, 40 now)" in other.stderr
    assert (tmp_path / "state" / "current.json").exists()


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_with_one_line(data, tmp_path):
    endless = [*OPTIONS, "--max-iter", "2000000", "--out", "run", "--checkpoint", "state"]
    command = [*RUN, "-m", "parafair", "fit", *data, *endless, "--checkpoint-minutes", "0.01"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=surroundings(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "state" / "current.json").exists():
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=120)
    assert errors.count("interrupted; nothing was written; the checkpoint in state stays") == 1
    assert "AttributeError" not in errors
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_example_runs(tmp_path):
    found = run([sys.executable, ROOT / "examples" / "many_processes.py"], tmp_path)
    assert found.returncode == 0, found.stderr
    assert "2 processes: Fit(rank 2, " in found.stdout
    assert "the embedding of all people: (900, 2)" in found.stdout


@pytest.mark.parametrize(
    ("device", "gpus", "nccl", "message"),
    [
        ("cuda:0", 2, True, "--device cuda:0 is one GPU, but torchrun started 2 processes"),
        ("cuda", 2, False, "--device cuda with several processes needs nccl"),
        ("cuda", 1, True, "needs one GPU for each of the 2 processes .* use --nproc-per-node 1"),
    ],
)
def test_processes_without_a_gpu_each_are_refused(monkeypatch, device, gpus, nccl, message):
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: nccl)
    with pytest.raises(ValueError, match=message), process_group(device):
        pass


def test_the_report_of_torchrun_ends_with_the_message(data, tmp_path):
    done = run([*RUN, "-m", "parafair", "fit", *data, "--rank", "2", "--out", "run"], tmp_path)
    assert done.returncode == 1
    assert (
        "torchrun has 2 processes, but the people form 1 part" in done.stderr.split("Root Cause")[1]
    )
    assert not (tmp_path / "run").exists()


def test_a_command_that_shares_no_work_is_refused_to_several_processes(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = CliRunner().invoke(app, ["audit", "run"])
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "process 1: Error: torchrun started 2 processes, but `parafair audit` is for one" in said


@pytest.mark.slow
def test_torchrun_computes_the_frontier_of_one_process_and_continues_it(data, tmp_path):
    options = ["--rank", "2", "--methods", "hsic", "--strengths", "1,10", "--noise", "0.3"]
    options += ["--attackers", "linear", "--permutations", "9", "--max-iter", "8", "--tol", "0"]
    one = [sys.executable, "-m", "parafair", "frontier", *data, *options, "--out", "one"]
    assert run(one, tmp_path).returncode == 0
    two = run([*RUN, "-m", "parafair", "frontier", *data, *options, "--out", "two"], tmp_path)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("written to two") == 1  # process 0 alone
    first, second = (load(tmp_path / name) for name in ("one", "two"))
    for point, other in zip(first.points, second.points, strict=True):
        assert (point.member, point.audit.leakage) == (other.member, other.audit.leakage)
        embeddings = [each.fit.cp.factors[0].numpy() for each in (point, other)]
        np.testing.assert_allclose(*embeddings, rtol=1e-9, atol=1e-9)
    stamp = (tmp_path / "one/hsic/frontier.json").stat().st_mtime_ns
    again = run([*RUN, *one[1:]], tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "one/hsic/frontier.json").stat().st_mtime_ns == stamp
    assert not list(tmp_path.glob(".*"))
