"""Work that writes files: every command that does, and the library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parafair import Certificate, FairCP, frontier
from parafair.__main__ import main
from tests.campaign.kinds import (
    SORT,
    see_more,
    see_sorted,
    see_tucker,
    write_sorted,
    write_table,
)
from tests.campaign.samples import (
    QUICK,
    SMALL,
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
        keeps: What it may leave if it fails, to be continued from.
    """

    target: str
    work: Callable[[], None]
    out: str
    see: Callable[[Path], Any]
    replaces: bool = False
    grows: bool = False
    keeps: str = ""


DATA = people_of(Path("data"))
STORED = ("--checkpoint", "state", "--checkpoint-minutes", 1e-6, "--n-init", 3)
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
    Job("parafair sort", _command("sort", "table", *SORT, "--out", "new"), "new", see_sorted),
    Job(
        "parafair sort --force",
        _command("sort", "table", *SORT, "--out", "sorted", "--force"),
        "sorted",
        see_sorted,
        True,
    ),
    Job(
        "parafair fit of a sorted folder",
        _command("fit", "sorted", "--method", "none", *SMALL, "--out", "new"),
        "new",
        see_run,
    ),
    Job(
        "parafair fit --checkpoint",
        _command("fit", *DATA, *STORED, "--out", "new"),
        "new",
        see_run,
        keeps="state",
    ),
    Job(
        "parafair fit --ranks",
        _command("fit", *DATA[:-6], "--ranks", "2,2,2", *SMALL[2:], "--out", "new"),
        "new",
        see_tucker,
    ),
    Job(
        "parafair fit --encoder",
        _command("fit", *DATA, "--encoder", "linear", "--encoder-steps", 2, "--out", "new"),
        "new",
        see_more,
    ),
    Job(
        "parafair certify",
        _command("certify", "noisy", "--draws", 100, "--out", "new.json"),
        "new.json",
        Certificate.read,
    ),
    Job(
        "parafair transform",
        _command("transform", "run", *DATA[:-6], "--out", "new.csv"),
        "new.csv",
        _whole_text,
    ),
    Job(
        "parafair predict --force",
        _command("predict", "run", "cells.csv", "--out", "old.csv", "--force"),
        "old.csv",
        _whole_text,
        True,
    ),
    Job(
        "parafair recommend",
        _command("recommend", "run", "--include-rated", "--k", 2, "--out", "new.csv"),
        "new.csv",
        _whole_text,
    ),
    Job("FairCP.save", _save, "saved", see_model, True),
    Job("frontier(out=...)", _frontier, "points", see_frontier, grows=True),
)


def prepare(folder: Path) -> Path:
    """Write what all jobs read and replace."""
    prepare_few(folder)
    noisy = ("--strength", 3, "--noise", 0.5, "--keep-exact", "--out", folder / "noisy")
    run("fit", *people_of(folder / "data"), *noisy)
    write_table(folder / "table", 0)
    write_sorted(folder / "sorted", 1)
    cells = "person,mode_1,mode_2\n0,1,2\n3,0,1\n"
    (folder / "cells.csv").write_text(cells, encoding="utf-8")
    (folder / "old.csv").write_text(cells, encoding="utf-8")
    return folder


def prepare_few(folder: Path) -> Path:
    """Write what jobs on frontiers, reports and saved models read and replace."""
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
