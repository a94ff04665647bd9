"""Commands that are killed, interrupted or run out of disk, at every moment.

Each attempt runs in a process of its own. The fault comes before one of its operations on files,
or after a random time. Afterwards nothing that was there is lost, nothing half-written can be read,
and the same command gives what it would have given, and removes what the first one left behind.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parafair import FairCP, frontier
from parafair.__main__ import main
from parafair.errors import ParafairWarning
from parafair.solvers import Status
from parafair.storage import MANIFEST_FILE
from tests.campaign.faults import PROCESSES, End, Fault, Moment, run_with
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.samples import (
    QUICK,
    difference,
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

Random = random.Random
# A repeated fit differs by rounding if it is in a batch of another size.
ROUNDING = 1e-9


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


DATA = (*people_of(Path("data")), "--max-iter", 3)
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
    run("fit", *people_of(data), "--max-iter", 3, "--strength", 3, "--out", folder / "run")
    run("frontier", *people_of(data), "--max-iter", 3, *SWEEP, "--out", folder / "curve")
    run("audit", folder / "run", *QUICK, "--permutations", 19, "--json", folder / "old.json")
    small_model(3).save(folder / "saved")
    for name in ("old.html", "old.svg", "frontier.svg", "embeddings.svg"):
        (folder / name).write_text("<svg></svg>", encoding="utf-8")
    (folder / ".hidden").write_text("precious", encoding="utf-8")
    return folder


def do(target: str) -> None:
    """Do the job of this name; for other processes."""
    next(job for job in JOBS if job.target == target).work()


@dataclass(frozen=True)
class Scene:
    """A job with a folder to do it in, and what comes of it.

    Attributes:
        job: The job.
        original: The folder before.
        folder: Where it is done.
        before: What reading the result returned before; None if it was not there.
        after: What it returns after the job.
        operations: How many operations on files the job takes.
        seconds: How long the job takes.
    """

    job: Job
    original: Path
    folder: Path
    before: Any
    after: Any
    operations: int
    seconds: float

    @classmethod
    def make(cls, job: Job, original: Path, folder: Path) -> Scene:
        """Do the job once, undisturbed."""
        scene = cls(job, original, folder, None, None, 0, 0.0)
        scene.reset()
        before = scene.see()
        begin = time.monotonic()
        end = scene.run(Moment(Fault.NONE))
        if end.code:
            raise RuntimeError(f"{job.target} failed: {end.text}")
        taken = time.monotonic() - begin
        return replace(
            scene, before=before, after=scene.see(), operations=end.operations, seconds=taken
        )

    def reset(self) -> None:
        """Make the folder as it was before."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder)

    def run(self, moment: Moment) -> End:
        """Do the job in a process."""
        beside = self.folder.with_name("printed")
        beside.mkdir(exist_ok=True)
        return run_with(moment, do, self.job.target, self.folder, beside)

    def see(self) -> Any:
        """Read the result; None if it is not there."""
        out = self.folder / self.job.out
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ParafairWarning)  # an unfinished frontier says so
            try:
                return self.job.see(out)
            except FileNotFoundError:
                if out.exists() and not self.job.grows:
                    raise
                return None
            except ValueError as error:
                if self.job.grows and "has no finished fit" in str(error):
                    return None
                raise

    def attempt(self, moment: Moment, chance: Random) -> Outcome:
        """Do the job with a fault, and then without."""
        self.reset()
        show = f"{self.job.target}: {moment}"
        try:
            for kind, detail in self._problems(moment, chance):
                return Outcome(self.job.target, kind, f"{moment.fault.value}: {detail}", show)
        except Exception as error:
            told = f"{moment.fault.value}: {type(error).__name__}: {error}"
            return Outcome(self.job.target, Kind.RAW, told[:300], show)
        return Outcome(self.job.target, Kind.FINE)

    def _problems(self, moment: Moment, chance: Random) -> Iterator[tuple[Kind, str]]:
        first = self.run(moment)
        yield from _tracebacks(self.job, first)
        yield from self._lost()
        if first.code == 0:
            yield from self._leftovers()
        if moment.fault is Fault.FULL and first.code not in (0, -signal.SIGKILL):
            yield from self._leftovers()
        _tear(self.folder, self._hidden(), chance)
        found = self.see()
        if self._stopped_early(found):
            return
        if not self._is_allowed(found):
            yield (
                Kind.DIFFERENT,
                f"after the fault: {difference(self.after, found, rounding=ROUNDING)}",
            )
        second = self.run(Moment(Fault.NONE))
        yield from _tracebacks(self.job, second)
        yield from self._lost()
        yield from self._leftovers()
        refused = second.code == 2 and "already" in second.text and not self.job.replaces
        if (
            second.code
            and not (refused and first.code != 0 and self._is_after(found))
            and not (refused and first.code == 0)
        ):
            yield Kind.LOST, f"the same again fails: {second.text[-200:]}"
        changed = difference(self.after, self.see(), rounding=ROUNDING)
        if changed:
            yield Kind.DIFFERENT, f"after the same again: {changed}"

    def _stopped_early(self, found: Any) -> bool:
        """Whether Ctrl-C gave a fit of fewer iterations, as documented."""
        fits = [fit for fit in _fits(found) if fit.status is Status.INTERRUPTED]
        return bool(fits)

    def _is_after(self, found: Any) -> bool:
        return not difference(self.after, found, rounding=ROUNDING)

    def _is_allowed(self, found: Any) -> bool:
        """Whether this is the state before, the state after, or whole parts of it."""
        if self._is_after(found) or not difference(self.before, found, rounding=ROUNDING):
            return True
        if not self.job.grows or found is None:
            return False
        points = {point.member: point for point in self.after[0].points}
        for point in found[0].points:
            whole = points[point.member]
            parts = [(point.fit, whole.fit), (point.audit, whole.audit)]
            parts.append((point.evaluation, whole.evaluation))
            if any(a is not None and difference(a, b, rounding=ROUNDING) for a, b in parts):
                return False
        return True

    def _hidden(self) -> list[Path]:
        found = self.folder.rglob(".*")
        return [path for path in found if path.name != ".hidden"]

    def _leftovers(self) -> Iterator[tuple[Kind, str]]:
        for path in self._hidden():
            name = re.sub(r"-\w+-\d+-[0-9a-f]{12}", "-...", str(path.relative_to(self.folder)))
            yield Kind.LOST, f"left behind: {name}"

    def _lost(self) -> Iterator[tuple[Kind, str]]:
        """Yield the files that the job does not write and that are not as they were."""
        out = Path(self.job.out)
        written = {out, *(out.with_name(f"{n}.svg") for n in ("frontier", "embeddings", out.stem))}
        for path in self.original.rglob("*"):
            place = path.relative_to(self.original)
            if path.is_dir() or ((place in written or out in place.parents) and self.job.replaces):
                if self.job.grows and path.is_file():
                    pass
                else:
                    continue
            now = self.folder / place
            if not now.exists() or now.read_bytes() != path.read_bytes():
                yield Kind.LOST, f"{place} is gone or changed"


def _fits(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple):
        for part in found:
            yield from _fits(part)
    elif hasattr(found, "status"):
        yield found


def _tracebacks(job: Job, end: End) -> Iterator[tuple[Kind, str]]:
    if job.target.startswith("parafair") and "Traceback" in end.text:
        yield Kind.TRACEBACK, end.text.strip().splitlines()[-1][:200]


def _tear(folder: Path, hidden: list[Path], chance: Random) -> None:
    """Cut temporary files, as if they had not been written to the end."""
    for path in hidden:
        inner = [path] if path.is_file() else [*path.rglob("*")]
        for file in inner:
            whole = (file.parent / MANIFEST_FILE).exists()
            if file.is_file() and not whole and chance.random() < 0.5:
                data = file.read_bytes()
                file.write_bytes(data[: chance.randrange(len(data) + 1)])


def moments(scene: Scene, chance: Random) -> Iterator[Moment]:
    """Yield moments for faults, without end."""
    faults = (Fault.KILL, Fault.KILL, Fault.KILL, Fault.TERMINATE, Fault.INTERRUPT, Fault.FULL)
    while True:
        fault = chance.choice(faults)
        if chance.random() < 0.8:
            yield Moment(fault, chance.randint(1, scene.operations))
        elif fault is Fault.FULL:
            yield Moment(fault, seconds=chance.choice((0, chance.randrange(9000))))
        else:
            yield Moment(fault, seconds=chance.random() * scene.seconds)


def kills(seed: int, folder: Path) -> Iterator[Outcome]:
    """Disturb all jobs in turn, without end."""
    PROCESSES.set_forkserver_preload(["tests.campaign.warm"])
    chance = Random(seed)
    original = prepare(folder / "original")
    scenes = [Scene.make(job, original, folder / "work") for job in JOBS]
    plans = [moments(scene, chance) for scene in scenes]
    while True:
        for scene, plan in zip(scenes, plans, strict=True):
            yield scene.attempt(next(plan), chance)
