"""Run the campaign and print what came of it."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import format_exc
from types import FrameType

from tests.campaign import api, defaults, namespace, parallel, shell
from tests.campaign.blinding import blinding
from tests.campaign.counts import WRITE_SECONDS, Counts, version
from tests.campaign.damage import damage
from tests.campaign.kills import kills
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.races import races

# A part yields outcomes without end; the runner stops it. Its arguments are a seed and an empty
# folder. To add a part, add a line.
PARTS: dict[str, Callable[[int, Path], Iterator[Outcome]]] = {
    "api": api.fuzz,
    "shell": shell.fuzz,
    "processes": shell.fuzz_processes,
    "defaults": defaults.fuzz,
    "blinding": blinding,
    "damage": damage,
    "kills": kills,
    "races": races,
}

# Shares of the time; the others get 1.
SHARES = {"api": 4.0, "shell": 2.0}


class Ended(BaseException):
    """Somebody asked for the end, such as a limit on the time."""


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended


def _outcomes(name: str, seed: int) -> Iterator[Outcome]:
    """Yield the outcomes of a part, in a temporary folder; that it fails itself is one of them."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            yield from PARTS[name](seed, Path(folder))
        except Exception as error:
            detail = f"the part itself failed: {type(error).__name__}: {error}"
            yield Outcome(f"campaign {name}", Kind.RAW, detail, reproduction=format_exc())


def run(seconds: float, seed: int, parts: list[str], file: Path | None = None) -> Counts:
    """Give each part its share of the time; return what came of it.

    Args:
        seconds: The time.
        seed: The seed of all parts.
        parts: Their names.
        file: Where the counts are written, also while it runs; None for nowhere.
    """
    found = Counts([seed], [version()], list(namespace.ABSENT))
    begin, written = time.monotonic(), 0.0
    total = sum(SHARES.get(name, 1.0) for name in parts)
    try:
        for name in parts:
            end = time.monotonic() + seconds * SHARES.get(name, 1.0) / total
            found.begin(name)
            for outcome in _outcomes(name, seed):
                now = time.monotonic()
                found.add(name, outcome)
                found.seconds = now - begin
                if file is not None and now > written + WRITE_SECONDS:
                    found.write(file)
                    written = now
                if now > end:
                    break
    except (Ended, KeyboardInterrupt):
        pass
    found.seconds = time.monotonic() - begin
    if file is not None:
        found.write(file)
    return found


def main() -> int:
    """Print a table of outcomes and a reproduction of every failure; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="time for all parts")
    parser.add_argument("--seed", type=int, default=7, help="the same seed gives the same cases")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="number of processes, with different seeds that follow from SEED; from one per part "
        "on, each runs one part",
    )
    parser.add_argument(
        "--json",
        type=Path,
        help="also write the counts here; python -m tests.campaign.counts adds several files up",
    )
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    chosen = parser.parse_args()
    for name in chosen.parts:
        if name not in PARTS:
            parser.error(f"{name!r} is not one of {', '.join(PARTS)}")
    if chosen.processes < 1:
        parser.error(f"--processes must be at least 1, got {chosen.processes}")
    signal.signal(signal.SIGTERM, _end)
    file = None if chosen.json is None else chosen.json.absolute()  # parts change the folder
    parts = chosen.parts or list(PARTS)
    if chosen.processes > 1:
        shared = parallel.deal(parts, chosen.processes)
        found = parallel.run(chosen.seconds, chosen.seed, shared, file)
    else:
        found = run(chosen.seconds, chosen.seed, parts, file)
    found.show()
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
