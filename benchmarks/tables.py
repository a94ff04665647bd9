"""Memory of a process that fits a table: while it reads, deals people and fits.

    python -m benchmarks.tables entries.csv
    torchrun --nproc-per-node 2 -m benchmarks.tables entries.csv

The first call writes the table, 2,000,000 generated entries. Memory is that of the process alone,
without pages of files.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pandas

from parafair.__main__ import main as run_command
from parafair.cli import fitting
from parafair.model.task import Task

PEOPLE, EACH, OTHERS = 40_000, 50, (10, 20)
OPTIONS = (
    "--modes who,b,c --value x --rank 4 --method none --ridge 1 --max-iter 2 --tol 0 --solver lbfgs"
)


def write_entries(path: Path) -> None:
    """Write a table of generated entries."""
    random = np.random.default_rng(0)
    cells = np.argsort(random.random((PEOPLE, OTHERS[0] * OTHERS[1])), 1)[:, :EACH]
    table = pandas.DataFrame({"who": np.repeat(np.arange(PEOPLE), EACH)})
    table["b"], table["c"] = np.divmod(cells.ravel(), OTHERS[1])
    table["x"] = random.standard_normal(len(table)).round(3)
    table.to_csv(path, index=False)


class Peaks:
    """The largest memory of each phase, in MB, as a thread sees it."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self.phase: str | None = "begin"
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while (phase := self.phase) is not None:
            status = Path("/proc/self/status").read_text()
            own = re.search(r"RssAnon:\s+(\d+) kB", status)
            assert own is not None
            self.found[phase] = max(self.found.get(phase, 0), int(own[1]) // 1000)
            sleep(0.002)

    def during(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that begins a phase."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.phase = phase
            return function(*args, **kwargs)

        return called


def main() -> None:
    """Fit the table and print the peaks of this process."""
    path = Path(sys.argv[1])
    if not path.is_file():
        write_entries(path)
    peaks = Peaks()
    fitting.load = peaks.during("reading", fitting.load)
    fitting._fit = peaks.during("dealing", fitting._fit)
    Task.fit = peaks.during("fitting", Task.fit)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        sys.argv[1:] = ["fit", str(path), *OPTIONS.split(), "--out", f"{folder}/run"]
        try:
            run_command()
        finally:
            peaks.phase = None
            peaks.thread.join()
            print(f"process {os.environ.get('RANK', '0')}: MB {peaks.found}", file=sys.stderr)


if __name__ == "__main__":
    main()
