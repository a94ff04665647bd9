"""What an iteration costs by the size of the data: bytes, arithmetic and messages.

    python -m benchmarks.cost

prints the tables of docs/scale.md: the model, the measured points of benchmarks/results/, and what
follows from them for sizes that were not measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

# Bytes of an entry: in a sorted file with two other modes, as measured; and of its positions, cell
# and orders in a tile.
IN_FILE, IN_TILE = 10.8, 40


@dataclass(frozen=True)
class Size:
    """The size of a problem.

    Attributes:
        people: Number of people.
        each: Entries of a person.
        others: Sizes of the other modes, added up.
        rank: Number of components.
        number: Bytes of a number.
    """

    people: int
    each: int
    others: int
    rank: int
    number: int = 4

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.people * self.each

    @property
    def file(self) -> float:
        """Bytes that a pass reads from files."""
        return IN_FILE * self.entries

    @property
    def memory(self) -> float:
        """Bytes that the loss with its gradients moves in memory.

        An entry, its person's row twice, its cell's row twice and two sums.
        """
        return self.entries * (IN_TILE + 6 * self.rank * self.number)

    @property
    def arithmetic(self) -> float:
        """Multiply-adds of the loss with its gradients: a product and two sums per component."""
        return 3.0 * self.entries * self.rank

    @property
    def rows(self) -> float:
        """Bytes of one copy of the people's rows."""
        return float(self.people * self.rank * self.number)

    @property
    def message(self) -> float:
        """Bytes that processes add up: gradients of the other factors and a few numbers."""
        return 8.0 * (self.others * self.rank + 8)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured() -> list[list[str]]:
    """Return the measured points of streamed fits; times are those of the CPU."""
    found = []
    for name, row in points():
        nanoseconds = [1e9 * row[f"{what}, CPU s"] / row["entries"] for what in ("read", "pass")]
        found.append(
            [
                name,
                f"{row['people']:,}",
                f"{row['entries']:,}",
                str(row["rank"]),
                row["method"],
                *(f"{number:.0f}" for number in nanoseconds),
                f"{row['peak MB'] / 1000:.2f}",
                f"{row['bound MB'] / 1000:.2f}",
            ]
        )
    return found


def points() -> list[tuple[str, dict[str, Any]]]:
    """Return all measured points and where their entries came from."""
    found = []
    for name in ("generated", "parquet"):
        path = RESULTS / f"scale_{name}.json"
        rows = json.loads(path.read_text())["rows"] if path.is_file() else []
        found += [(name, row) for row in rows]
    return found


def exponents() -> list[str]:
    """Return sentences on the growth of the CPU time of a pass with the number of people."""
    found = []
    for source in ("generated", "parquet"):
        own = {row["people"]: row["pass, CPU s"] for name, row in points() if name == source}
        if len(own) > 1:
            (n, first), *_, (m, last) = sorted(own.items())
            power = log(last / first) / log(m / n)
            found.append(
                f"{source}: from {n:,} to {m:,} people a pass grows with the power {power:.2f}"
            )
    return found


def main() -> None:
    """Print the tables."""
    sizes = [Size(10**n, 100, 1000, 16) for n in (5, 6, 7, 8)]
    print(
        table(
            [
                "people",
                "entries",
                "file, GB",
                "memory, GB",
                "multiply-adds",
                "rows, GB",
                "message, kB",
            ],
            [
                [
                    f"{size.people:,}",
                    f"{size.entries:,}",
                    f"{size.file / 1e9:.2f}",
                    f"{size.memory / 1e9:.1f}",
                    f"{size.arithmetic / 1e9:.1f} billion",
                    f"{size.rows / 1e9:.2f}",
                    f"{size.message / 1e3:.0f}",
                ]
                for size in sizes
            ],
        )
    )
    print()
    header = ["source", "people", "entries", "rank", "method", "read, ns", "pass, ns"]
    print(table([*header, "peak GB", "bound GB"], measured()))
    print(*exponents(), sep="\n")
    print()
    print(table(["people", "GPUs", "people each", "step, s"], extrapolated()))


def extrapolated() -> list[list[str]]:
    """Return steps on several GPUs, from the measured one with a million people; linear growth."""
    rows = json.loads((RESULTS / "gpu_iteration.json").read_text())["rows"]
    (one,) = (row for row in rows if "1000000" in json.dumps(row).replace(",", ""))
    seconds = float(one["step, ms"]) / 1000
    return [
        [f"{people:,}", str(gpus), f"{people // gpus:,}", f"{seconds * people / gpus / 1e6:.2f}"]
        for people, gpus in ((10**6, 1), (10**7, 8), (10**8, 8))
    ]


if __name__ == "__main__":
    main()
