import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import parafair
from parafair import interrupts

pytest.importorskip("typer")


@pytest.mark.parametrize(
    ("arguments", "quiet"),
    [
        (["/bin/parafair", "fit"], True),
        (["python", "-m", "parafair", "fit"], True),
        (["python", "-m", "pytest"], False),
        (["python", "script.py", "parafair"], False),
    ],
)
def test_only_the_command_is_quiet(monkeypatch, arguments, quiet):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(sys, "orig_argv", arguments)
    monkeypatch.setattr(sys, "argv", arguments if quiet else arguments[1:])
    interrupts.quiet_if_command()
    assert (sys.excepthook is not sys.__excepthook__) == quiet


def test_other_errors_keep_their_traceback(capsys):
    for error in (KeyboardInterrupt(), ValueError("why")):
        interrupts._without_traceback(type(error), error, None)
    assert capsys.readouterr().err == "ValueError: why\n"


@pytest.mark.parametrize("seconds", [0.3, 0.8])
def test_ctrl_c_while_importing_shows_no_traceback(seconds):
    environment = {**os.environ, "PYTHONPATH": str(Path(parafair.__file__).parents[1])}
    command = [sys.executable, "-m", "parafair", "datasets"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert "Traceback" not in shown
    assert process.returncode != 0
