"""Run the campaign and print what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from tests.campaign import api, defaults, shell
from tests.campaign.blinding import blinding
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


def run(seconds: float, seed: int, parts: list[str]) -> dict[str, list[Outcome]]:
    """Give each part its share of the time; return the outcomes by part."""
    found: dict[str, list[Outcome]] = {}
    total = sum(SHARES.get(name, 1.0) for name in parts)
    for name in parts:
        end = time.monotonic() + seconds * SHARES.get(name, 1.0) / total
        found[name] = []
        with tempfile.TemporaryDirectory() as folder:
            for outcome in PARTS[name](seed, Path(folder)):
                found[name].append(outcome)
                if time.monotonic() > end:
                    break
    return found


def table(found: dict[str, list[Outcome]]) -> Table:
    """How many attempts of each part came to what; failures in red."""
    shown = Table(box=box.SIMPLE_HEAD, title="Outcomes of the campaign", title_justify="left")
    shown.add_column("outcome")
    for name in found:
        shown.add_column(name, justify="right")
    counts = {name: Counter(each.kind for each in outcomes) for name, outcomes in found.items()}
    for kind in Kind:
        numbers = [count[kind] for count in counts.values()]
        if any(numbers):
            style = "bold red" if kind.failure else None
            shown.add_row(kind.label, *(f"{n:,}" if n else "" for n in numbers), style=style)
    shown.add_section()
    shown.add_row("all", *(f"{len(outcomes):,}" for outcomes in found.values()), style="bold")
    return shown


def failures_of(found: dict[str, list[Outcome]]) -> list[Outcome]:
    """The failures, one for each target and detail."""
    everything = (outcome for outcomes in found.values() for outcome in outcomes)
    failed = (outcome for outcome in everything if outcome.kind.failure)
    return list({(outcome.target, outcome.detail): outcome for outcome in failed}.values())


def main() -> int:
    """Print a table of outcomes and a reproduction of every failure; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="time for all parts")
    parser.add_argument("--seed", type=int, default=7, help="the same seed gives the same cases")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    chosen = parser.parse_args()
    for name in chosen.parts:
        if name not in PARTS:
            parser.error(f"{name!r} is not one of {', '.join(PARTS)}")
    begin = time.monotonic()
    found = run(chosen.seconds, chosen.seed, chosen.parts or list(PARTS))
    console, failures = Console(), failures_of(found)
    console.print(table(found))
    for outcome in failures:
        heading = f"{outcome.kind.label}: {outcome.target}: {outcome.detail}"
        console.print(heading, style="bold red", markup=False, highlight=False)
        console.print(outcome.reproduction + "\n", markup=False, highlight=False, soft_wrap=True)
    attempts = sum(map(len, found.values()))
    console.print(
        f"{attempts:,} attempts with seed {chosen.seed} in {time.monotonic() - begin:.0f} s, "
        f"{len(failures)} different failures",
        style="bold red" if failures else "bold green",
        highlight=False,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
