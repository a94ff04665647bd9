"""How many attempts came to what, by part; counts of several runs can be added up.

>>> python -m tests.campaign.counts first.json second.json  # doctest: +SKIP
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from parafair.storage import write_text
from tests.campaign.outcomes import Kind, Outcome


@dataclass
class Counts:
    """The outcomes of runs.

    Attributes:
        seeds: The seeds of the runs.
        seconds: How long they took, together.
        kinds: How many attempts of each part came to what.
        targets: How many attempts each target had, by part.
        failures: One failure for each target and detail.
    """

    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0
    kinds: dict[str, Counter[Kind]] = field(default_factory=dict)
    targets: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def begin(self, part: str) -> None:
        """Add a part without attempts."""
        self.kinds.setdefault(part, Counter())
        self.targets.setdefault(part, Counter())

    def add(self, part: str, outcome: Outcome) -> None:
        """Count an attempt of a part."""
        self.begin(part)
        self.kinds[part][outcome.kind] += 1
        self.targets[part][outcome.target] += 1
        if outcome.kind.failure:
            self.failures.setdefault((outcome.target, outcome.detail), outcome)

    @property
    def attempts(self) -> int:
        """How many attempts there were."""
        return sum(count.total() for count in self.kinds.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "seeds": self.seeds,
            "seconds": round(self.seconds, 1),
            "attempts": self.attempts,
            "parts": {
                part: {
                    "attempts": count.total(),
                    "outcomes": {kind.name: count[kind] for kind in Kind if count[kind]},
                    "targets": dict(sorted(self.targets[part].items())),
                }
                for part, count in self.kinds.items()
            },
            "failures": [
                {**asdict(failure), "kind": failure.kind.name} for failure in self.failures.values()
            ],
        }

    def write(self, path: Path) -> None:
        """Write the counts as JSON, whole or not at all."""
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Counts:
        """Return the sum of the counts that runs wrote."""
        found = cls()
        for path in paths:
            record = json.loads(path.read_text(encoding="utf-8"))
            found.seeds += record["seeds"]
            found.seconds += record["seconds"]
            for part, count in record["parts"].items():
                found.begin(part)
                found.kinds[part] += Counter({Kind[k]: n for k, n in count["outcomes"].items()})
                found.targets[part] += Counter(count["targets"])
            for each in record["failures"]:
                failure = Outcome(**{**each, "kind": Kind[each["kind"]]})
                found.failures.setdefault((failure.target, failure.detail), failure)
        return found

    def table(self) -> Table:
        """How many attempts of each part came to what; failures in red."""
        shown = Table(box=box.SIMPLE_HEAD, title="Outcomes of the campaign", title_justify="left")
        shown.add_column("outcome")
        for name in self.kinds:
            shown.add_column(name, justify="right")
        for kind in Kind:
            numbers = [count[kind] for count in self.kinds.values()]
            if any(numbers):
                style = "bold red" if kind.failure else None
                shown.add_row(kind.label, *(f"{n:,}" if n else "" for n in numbers), style=style)
        shown.add_section()
        shown.add_row("all", *(f"{count.total():,}" for count in self.kinds.values()), style="bold")
        return shown

    def show(self) -> None:
        """Print the table and a reproduction of every failure."""
        console = Console()
        console.print(self.table())
        for outcome in self.failures.values():
            heading = f"{outcome.kind.label}: {outcome.target}: {outcome.detail}"
            console.print(heading, style="bold red", markup=False, highlight=False)
            console.print(
                outcome.reproduction + "\n", markup=False, highlight=False, soft_wrap=True
            )
        console.print(
            f"{self.attempts:,} attempts with {_seeds(self.seeds)} in {self.seconds:.0f} s, "
            f"{len(self.failures)} different failures",
            style="bold red" if self.failures else "bold green",
            highlight=False,
        )


def _seeds(seeds: Iterable[int]) -> str:
    each = sorted(set(seeds))
    return f"seed{'s' * (len(each) > 1)} {', '.join(map(str, each))}"


if __name__ == "__main__":
    total = Counts.read(map(Path, sys.argv[1:]))
    total.show()
    sys.exit(1 if total.failures else 0)
