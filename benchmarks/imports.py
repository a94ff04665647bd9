"""How long imports take. Run with ``python -m benchmarks.run import_time``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
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
    """Seconds of a whole process, Python's own start included; the best of five."""
    for name, code in PROGRAMS.items():
        seconds = min(_seconds(code) for _ in range(REPEATS))
        yield {"program": name, "seconds": seconds}


def _seconds(code: str) -> float:
    begin = perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begin
