"""Import and do everything once; processes that are copies of this one start in no time."""

from __future__ import annotations

import os

# A copy of a process with threads of OpenMP would wait for them without end.
os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
from pathlib import Path

from tests.campaign.jobs import prepare
from tests.campaign.samples import QUICK, run

with tempfile.TemporaryDirectory() as name:
    folder = prepare(Path(name) / "all")
    run("report", folder / "curve", "--out", folder / "page.html", "--format", "svg", "--force")
    run("audit", folder / "run", *QUICK, "--picture", folder / "audit.svg")
