import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

from parafair import Fit, Status

pytest.importorskip("typer")
from tests.cli.conftest import FIT, FIT_SCORES, run


def test_help_teaches(working):
    assert "parafair fit data/tensor.npy" in run("--help")
    assert "Ctrl-C" in run("fit", "--help")
    assert run("--version").startswith("parafair 0.")


def drain(terminal):
    """Read until the other end is closed."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1000):
            pass


@pytest.mark.slow
def test_ctrl_c_leaves_a_usable_result(arrays):
    command = [
        sys.executable, "-m", "parafair", "fit", "tensor.npy", "--rank", "2", "--out", "run",
        "--sensitive", "people.csv", "--key", "person", "--max-iter", "100000000",
        "--tol", "0", "--solver", "gradient",
    ]  # fmt: skip
    # The bar is drawn on terminals only, so give it one and wait for its first iteration.
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
        # A terminal that nobody reads fills up and blocks the writer.
        threading.Thread(target=drain, args=[terminal], daemon=True).start()
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 130, out
    assert b"interrupted" in out
    fit = Fit.load(arrays / "run")
    assert fit.status is Status.INTERRUPTED
    assert fit.n_iter > 0
    assert len(pd.read_csv("run/embedding.csv")) == 40


ESCAPES = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"


def test_labels_cannot_control_the_terminal(tables):
    for name, column in (("students.csv", "gender"), ("scores.csv", "module")):
        table = pd.read_csv(name)
        table[column] = table[column].map(lambda text: f"{ESCAPES}{text}")
        table.to_csv(name, index=False)
    text = run(*FIT_SCORES, "--method", "none", "--test-size", 0.3)
    assert "\\x1b[31m\\x9b2J" in text  # narrow terminals cut the rest off
    text += run("audit", "run", "--attackers", "linear", "--repeats", 1, "--permutations", 5)
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    text = run("fit", f"{ESCAPES}.npy", "--out", "other", code=2)
    assert "\\x1b]0;title\\x07" in text
    assert "\x1b" not in text


def test_ctrl_c_while_reading_ends_quietly(arrays, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.cli.fitting.load", interrupted)
    assert run(*FIT, code=130) == "interrupted; nothing was written"


def test_a_device_without_memory_is_refused(arrays):
    assert "--device meta cannot be used here" in run(*FIT, "--device", "meta", code=2)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["audit", "x" * 300], "embedding"),
        (["fit", "x" * 300, "--rank", "2", "--out", "run"], "tensor"),
        (["fit", "tensor.npy", "--rank", "2", "--out", "x" * 300], "--out"),
        (["fit", "tensor.npy", "--rank", "2", "--out", "run", "--sensitive", "x" * 300],
         "--sensitive"),
    ],
)  # fmt: skip
def test_a_path_that_the_system_refuses_is_named_with_a_remedy(working, arguments, name):
    said = " ".join(run(*arguments, code=2).split())
    assert f"{name} must be a path that can be looked up" in said
    assert "(File name too long); choose another" in said
