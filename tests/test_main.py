import os
import subprocess
import sys
from pathlib import Path

import pytest

import parafair

pytest.importorskip("typer")


@pytest.mark.parametrize("command", [["--help"], ["fit", "--help"], ["datasets"]])
def test_terminals_that_know_ascii_only_are_served(command):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(parafair.__file__).parents[1]),
        "PYTHONIOENCODING": "ascii:strict",
        "COLUMNS": "200",
    }
    found = subprocess.run(
        [sys.executable, "-m", "parafair", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout
