"""The campaign in several processes: each has a seed, parts and a temporary folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np

from tests.campaign.counts import WRITE_SECONDS, Counts
from tests.campaign.outcomes import Kind, Outcome

# A process that was asked to end finishes what it is doing; after this time it is killed. What it
# counted until its last writing is kept.
LONGEST_END = 60.0

# The time that a useful number of attempts takes, relative to the others, which have 1: of calls
# many are needed, an embedding is audited, and a killed command runs twice.
COSTS = {"api": 4.0, "blinding": 6.0, "kills": 3.0, "shell": 2.0}

# Exit codes of a process: still running, without and with failures, asked to end before it began.
ENDS = (None, 0, 1, -signal.SIGTERM)


def deal(parts: Sequence[str], processes: int) -> list[list[str]]:
    """Return the parts of each process.

    If there are enough processes, each has one part, so that it prepares for no other, and the
    number of processes of a part grows with its cost. Otherwise each process has all parts.

    >>> deal(["api", "damage"], 4)
    [['api'], ['api'], ['api'], ['damage']]
    >>> deal(["api", "damage"], 1)
    [['api', 'damage']]

    Args:
        parts: The names of the parts.
        processes: The number of processes.
    """
    if processes < len(parts):
        return [list(parts)] * processes
    counts = dict.fromkeys(parts, 1)
    for _ in range(processes - len(parts)):
        needy = max(parts, key=lambda part: COSTS.get(part, 1.0) / (counts[part] + 1))
        counts[needy] += 1
    return [[part] for part in parts for _ in range(counts[part])]


def seeds_of(seed: int, processes: int) -> list[int]:
    """Return a seed for each process; campaigns with other seeds, however near, have others.

    >>> seeds_of(1, 3)
    [1835504127, 1731038949, 1320224556]

    Args:
        seed: The seed of the campaign.
        processes: The number of processes.
    """
    return np.random.SeedSequence(seed).generate_state(processes).tolist()


@dataclass(frozen=True)
class Worker:
    """A campaign in a process of its own.

    Attributes:
        process: The process.
        parts: What it runs.
        folder: Its temporary folder, with its counts and what it prints.
    """

    process: subprocess.Popen[bytes]
    parts: list[str]
    folder: Path

    @classmethod
    def start(cls, seconds: float, seed: int, parts: list[str], folder: Path) -> Worker:
        """Start a process, which is not interrupted by Ctrl-C in the terminal of this one."""
        inner = folder / "temporary"
        inner.mkdir(parents=True)
        words = ["--seconds", str(seconds), "--seed", str(seed), "--json", str(folder / "counts")]
        with (folder / "printed").open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.campaign", *words, *parts],
                # More threads would compete for the cores.
                env={"OMP_NUM_THREADS": "1", **os.environ, "TMPDIR": str(inner)},
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, parts, folder)

    def counts(self) -> Counts:
        """Return what it has counted so far; an unexpected end is a failure."""
        file = self.folder / "counts"
        found = Counts.read([file] if file.exists() else [])
        code = self.process.poll()
        if code not in ENDS or (code == 1 and not found.failures):
            said = (self.folder / "printed").read_text(encoding="utf-8", errors="replace")
            detail = f"the process of {', '.join(self.parts)} ended with code {code}"
            found.add(self.parts[0], Outcome("campaign", Kind.RAW, detail, reproduction=said))
        return found


class _Ends:
    """Notes that somebody asks for the end, while in a with statement."""

    asked = False

    def __enter__(self) -> _Ends:
        self.handlers = {n: signal.signal(n, self._ask) for n in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def run(seconds: float, seed: int, shared: list[list[str]], file: Path | None = None) -> Counts:
    """Run campaigns side by side, and return what came of them all.

    SIGINT and SIGTERM end them early, with what was counted until then.

    Args:
        seconds: The time.
        seed: The seed of the campaign, from which the seeds of the processes follow.
        shared: The parts of each process.
        file: Where the counts are written, also while they run; None for nowhere.
    """
    with _Ends() as ends, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        workers = [
            Worker.start(seconds, own, parts, Path(name) / str(number))
            for number, (own, parts) in enumerate(
                zip(seeds_of(seed, len(shared)), shared, strict=True)
            )
        ]
        written = time.monotonic()
        try:
            while not ends.asked and any(each.process.poll() is None for each in workers):
                time.sleep(0.2)
                if file is not None and time.monotonic() > written + WRITE_SECONDS:
                    Counts.total(each.counts() for each in workers).write(file)
                    written = time.monotonic()
        finally:
            _end(workers)
        found = Counts.total(each.counts() for each in workers)
    if file is not None:
        found.write(file)
    return found


def _end(workers: Sequence[Worker]) -> None:
    """End all processes, and what they started."""
    for each in workers:
        if each.process.poll() is None:
            each.process.terminate()
    last = time.monotonic() + LONGEST_END
    for each in workers:
        try:
            each.process.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()
        with suppress(ProcessLookupError):  # nothing is left of it
            os.killpg(each.process.pid, signal.SIGKILL)
