"""Work that writes files: every command that does, and the library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parafair import FairCP, frontier
from parafair.__main__ import main
from tests.campaign.samples import (
    QUICK,
    people_of,
    run,
    see_audit_file,
    see_data,
    see_frontier,
    see_model,
    see_run,
    small_model,
    write_data,
)


def _command(*arguments: Any) -> Callable[[], None]:
    return lambda: _call_main([str(argument) for argument in arguments])


def _call_main(arguments: list[str]) -> None:
    sys.argv = ["parafair", *arguments]
    main()


def _save() -> None:
    FairCP.load("run").save("saved", overwrite=True)


def _frontier() -> None:
    tensor = np.load("data/tensor.npy")
    groups = np.arange(len(tensor)) % 2
    model = FairCP(2, max_iter=3, tol=0)
    audits = {"attackers": ("linear",), "repeats": 1, "folds": 2, "permutations": 9}
    frontier(
        model, tensor, sensitive_features=groups, strengths=(0.1, 1.0), audits=audits, out="points"
    )


def _whole_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _drawing(path: Path) -> bool:
    return _whole_text(path).rstrip().endswith("</svg>")


def _report(path: Path) -> Any:
    return _whole_text(path), _drawing(path.with_name("frontier.svg"))


def _audit(path: Path) -> Any:
    return see_audit_file(path), _drawing(path.with_suffix(".svg"))


@dataclass(frozen=True)
class Job:
    """Something to do in the folder that `prepare` makes.

    Attributes:
        target: What it is.
        work: Does it; the folder is the current one.
        out: The file or folder that it writes.
        see: Reads that.
        replaces: Whether it was there before.
        grows: Whether it is written in parts, each of them whole.
    """

    target: str
    work: Callable[[], None]
    out: str
    see: Callable[[Path], Any]
    replaces: bool = False
    grows: bool = False


DATA = people_of(Path("data"))
SWEEP = ("--strengths", "1,100", *QUICK)
AUDIT = ("audit", "run", *QUICK)
JOBS = (
    Job("parafair fit", _command("fit", *DATA, "--out", "new"), "new", see_run),
    Job(
        "parafair fit --force",
        _command("fit", *DATA, "--force", "--out", "run"),
        "run",
        see_run,
        True,
    ),
    Job(
        "parafair tune",
        _command("tune", *DATA, "--strength", "0.1,1", "--out", "new"),
        "new",
        see_run,
    ),
    Job(
        "parafair tune --force",
        _command("tune", *DATA, "--strength", "0.1,1", "--force", "--out", "run"),
        "run",
        see_run,
        True,
    ),
    Job(
        "parafair frontier",
        _command("frontier", *DATA, *SWEEP, "--out", "new"),
        "new",
        see_frontier,
        grows=True,
    ),
    Job(
        "parafair frontier, continued",
        _command("frontier", *DATA, *QUICK, "--strengths", "1,5,100", "--out", "curve"),
        "curve",
        see_frontier,
        True,
        True,
    ),
    Job("parafair audit", _command(*AUDIT, "--json", "a.json"), "a.json", see_audit_file),
    Job(
        "parafair audit --force",
        _command(*AUDIT, "--json", "old.json", "--picture", "old.svg", "--force"),
        "old.json",
        _audit,
        True,
    ),
    Job("parafair report", _command("report", "curve"), "curve/report.html", _whole_text),
    Job(
        "parafair report --force",
        _command("report", "curve", "--out", "old.html", "--format", "svg", "--force"),
        "old.html",
        _report,
        True,
    ),
    Job(
        "parafair pick",
        _command("pick", "curve", "--max-leakage", 1, "--out", "new"),
        "new",
        see_run,
    ),
    Job(
        "parafair pick --force",
        _command("pick", "curve", "--max-leakage", 1, "--force", "--out", "run"),
        "run",
        see_run,
        True,
    ),
    Job(
        "parafair datasets --force",
        _command("datasets", "synthetic", "--shape", "9,4,3", "--force", "--out", "other data"),
        "other data",
        see_data,
        True,
    ),
    Job("FairCP.save", _save, "saved", see_model, True),
    Job("frontier(out=...)", _frontier, "points", see_frontier, grows=True),
)


def prepare(folder: Path) -> Path:
    """Write what jobs read and replace."""
    folder.mkdir()
    data = write_data(folder / "data", 0)
    write_data(folder / "other data", 1)
    run("fit", *people_of(data), "--strength", 3, "--out", folder / "run")
    run("frontier", *people_of(data), *SWEEP, "--out", folder / "curve")
    run("audit", folder / "run", *QUICK, "--permutations", 19, "--json", folder / "old.json")
    small_model(3).save(folder / "saved")
    for name in ("old.html", "old.svg", "frontier.svg", "embeddings.svg"):
        (folder / name).write_text("<svg></svg>", encoding="utf-8")
    (folder / ".hidden").write_text("precious", encoding="utf-8")
    return folder


def do(target: str) -> None:
    """Do the job of this name; for other processes."""
    next(job for job in JOBS if job.target == target).work()
