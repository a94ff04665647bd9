"""How many attempts came to what, by part; counts of several runs can be added up.

>>> python -m tests.campaign.counts first.json second.json  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
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

import parafair
from parafair.storage import write_text
from tests.campaign.outcomes import Kind, Outcome

# The counts so far are written this often, so that even SIGKILL loses no more than that.
WRITE_SECONDS = 20.0


@dataclass
class Counts:
    """The outcomes of runs.

    Attributes:
        seeds: The seeds of the runs.
        versions: The versions of parafair that were tried.
        absent: Packages whose inputs were left out, because they are not installed.
        seconds: How long they took, together.
        kinds: How many attempts of each part came to what.
        targets: How many attempts each target had, by part.
        failures: One failure for each target and detail.
    """

    seeds: list[int] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
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
            "versions": self.versions,
            "absent": self.absent,
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
        return cls.total(map(cls._of_file, paths))

    @classmethod
    def _of_file(cls, path: Path) -> Counts:
        record = json.loads(path.read_text(encoding="utf-8"))
        found = cls(record["seeds"], record["versions"], record["absent"], record["seconds"])
        for part, count in record["parts"].items():
            found.kinds[part] = Counter({Kind[k]: n for k, n in count["outcomes"].items()})
            found.targets[part] = Counter(count["targets"])
        for each in record["failures"]:
            failure = Outcome(**{**each, "kind": Kind[each["kind"]]})
            found.failures[failure.target, failure.detail] = failure
        return found

    @classmethod
    def total(cls, several: Iterable[Counts]) -> Counts:
        """Return the sum of counts."""
        found = cls()
        for one in several:
            found.seeds += one.seeds
            found.versions = sorted({*found.versions, *one.versions})
            found.absent = sorted({*found.absent, *one.absent})
            found.seconds += one.seconds
            for part in one.kinds:
                found.begin(part)
                found.kinds[part] += one.kinds[part]
                found.targets[part] += one.targets[part]
            found.failures = {**one.failures, **found.failures}
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

    def folders(self) -> Table:
        """How often folders of each kind were damaged."""
        kinds: Counter[str] = Counter()
        for target, count in self.targets["damage"].items():
            kinds[target.partition("/")[0]] += count
        shown = Table(box=box.SIMPLE_HEAD, title="Damaged folders", title_justify="left")
        shown.add_column("kind")
        shown.add_column("times", justify="right")
        for kind, count in kinds.items():
            shown.add_row(kind, f"{count:,}")
        return shown

    def show(self) -> None:
        """Print the tables and a reproduction of every failure."""
        console = Console()
        console.print(self.table())
        if self.targets.get("damage"):
            console.print(self.folders())
        for outcome in self.failures.values():
            heading = f"{outcome.kind.label}: {outcome.target}: {outcome.detail}"
            console.print(heading, style="bold red", markup=False, highlight=False)
            console.print(
                outcome.reproduction + "\n", markup=False, highlight=False, soft_wrap=True
            )
        for name in self.absent:
            console.print(f"not tried: inputs of {name}, which is not installed", style="bold")
        console.print(
            f"{self.attempts:,} attempts on {', '.join(self.versions)} with {_seeds(self.seeds)} "
            f"in {self.seconds:.0f} s, {len(self.failures)} different failures",
            style="bold red" if self.failures else "bold green",
            highlight=False,
        )


def version() -> str:
    """Return the version of parafair, and a checksum of its sources, which change between two."""
    folder = Path(parafair.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return f"{parafair.__version__} ({digest.hexdigest()[:8]})"


def _seeds(seeds: Iterable[int]) -> str:
    each = sorted(set(seeds))
    return f"seed{'s' * (len(each) > 1)} {', '.join(map(str, each))}"


if __name__ == "__main__":
    total = Counts.read(map(Path, sys.argv[1:]))
    total.show()
    sys.exit(1 if total.failures else 0)
