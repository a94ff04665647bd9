import os
import subprocess
import sys
from pathlib import Path

import pytest

import parafair

pytest.importorskip("typer")

# One process for all commands, because importing torch takes most of the time.
COMMANDS = """
import runpy, sys
for command in (["--help"], ["fit", "--help"], ["datasets"]):
    sys.argv = ["parafair", *command]
    try:
        runpy.run_module("parafair", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, command
    print("end of", *command)
"""


@pytest.mark.slow
def test_terminals_that_know_ascii_only_are_served():
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(parafair.__file__).parents[1]),
        "PYTHONIOENCODING": "ascii:strict",
        "COLUMNS": "200",
    }
    found = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    parts = found.stdout.split("end of")
    assert len(parts) == 4
    assert all(len(part) > 200 for part in parts[:3])
