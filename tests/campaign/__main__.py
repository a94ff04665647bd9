"""Run the campaign and print what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.campaign import api, shell
from tests.campaign.outcomes import Kind, Outcome

# A part yields outcomes without end; the runner stops it. Its arguments are a seed and an empty
# folder. To add a part, add a line.
PARTS: dict[str, Callable[[int, Path], Iterator[Outcome]]] = {
    "api": api.fuzz,
    "shell": shell.fuzz,
    "processes": shell.fuzz_processes,
}


def run(seconds: float, seed: int, parts: list[str]) -> dict[str, list[Outcome]]:
    """Give each part an equal share of the time; return the outcomes by part."""
    found: dict[str, list[Outcome]] = {}
    for name in parts:
        end = time.monotonic() + seconds / len(parts)
        found[name] = []
        with tempfile.TemporaryDirectory() as folder:
            for outcome in PARTS[name](seed, Path(folder)):
                found[name].append(outcome)
                if time.monotonic() > end:
                    break
    return found


def main() -> int:
    """Print a table of outcomes and a reproduction of every failure; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("parts", nargs="*", choices=[*PARTS], default=[])
    chosen = parser.parse_args()
    found = run(chosen.seconds, chosen.seed, chosen.parts or list(PARTS))
    for name, outcomes in found.items():
        counts = Counter(outcome.kind for outcome in outcomes)
        print(name, len(outcomes), {kind.label: counts[kind] for kind in Kind if counts[kind]})  # noqa: T201
    failures = {(o.target, o.detail): o for part in found.values() for o in part if o.kind.failure}
    for outcome in failures.values():
        print(f"\n{outcome.kind.label}: {outcome.target}: {outcome.detail}")  # noqa: T201
        print(outcome.reproduction)  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
