"""How long imports take. Run with ``python -m benchmarks.run import_time``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from tempfile import TemporaryDirectory
from time import perf_counter

REPEATS = 5
# What is run, each in a process of its own.
PROGRAMS = {
    "nothing": "pass",
    "import torch": "import torch",
    "import parafair": "import parafair",
    "import torch, parafair": "import torch, parafair",
    "from sklearn.base import BaseEstimator": "from sklearn.base import BaseEstimator",
    "import torch, sklearn.base": "import torch, sklearn.base",
    "from parafair import FairCP": "from parafair import FairCP",
    "parafair --help": "import sys; sys.argv = ['parafair', '--help']; "
    "from parafair.__main__ import main; main()",
}


def import_time() -> Iterable[dict[str, object]]:
    """Seconds of a whole process, Python's own start included; the best of five runs."""
    with TemporaryDirectory() as compiled:
        _seconds("from parafair import FairCP", compiled)  # an installed package is compiled
        # In turns, because a busy machine has slow minutes.
        runs = [[_seconds(code, compiled) for code in PROGRAMS.values()] for _ in range(REPEATS)]
    for name, times in zip(PROGRAMS, zip(*runs, strict=True), strict=True):
        wall, used = (min(seconds) for seconds in zip(*times, strict=True))
        yield {"program": name, "seconds": wall, "seconds of the processor": used}


def _seconds(code: str, compiled: str) -> tuple[float, float]:
    """Return the time until a program ends, and the time that it computed.

    Args:
        code: The program.
        compiled: A folder for compiled modules.
    """
    env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    before, begin = os.times(), perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=env)
    after, wall = os.times(), perf_counter() - begin
    used = after.children_user - before.children_user
    return wall, used + after.children_system - before.children_system
