"""Commands that are killed, interrupted or run out of disk, at every moment.

Each attempt runs in a process of its own. The fault comes before one of its operations on files,
or after a random time. Afterwards nothing that was there is lost, nothing half-written can be read,
and the same command gives what it would have given, and removes what the first one left behind.
"""

from __future__ import annotations

import random
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parafair.errors import ParafairWarning
from parafair.solvers import Status
from parafair.temporaries import MANIFEST_FILE
from tests.campaign.faults import PROCESSES, End, Fault, Moment, run_with, start
from tests.campaign.jobs import JOBS, Job, do, prepare
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.samples import difference

Random = random.Random
# A repeated fit differs by rounding if it is in a batch of another size.
ROUNDING = 1e-9


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
        rewritten: Files that the undisturbed job changes: it exchanges the fits of a frontier.
        names: What is in the folder after the job.
    """

    job: Job
    original: Path
    folder: Path
    before: Any
    after: Any
    operations: int
    seconds: float
    rewritten: frozenset[Path] = frozenset()
    names: frozenset[str] = frozenset()

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
        rewritten = frozenset(place for place in scene._changed() if job.grows)
        return replace(
            scene,
            before=before,
            after=scene.see(),
            operations=end.operations,
            seconds=taken,
            rewritten=rewritten,
            names=scene._names(),
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
                told = f"{moment.fault.value}: {detail}"
                return Outcome(self.job.target, kind, told, reproduction=show)
        except Exception as error:
            told = f"{moment.fault.value}: {type(error).__name__}: {error}"
            return Outcome(self.job.target, Kind.RAW, told[:300], reproduction=show)
        return Outcome(self.job.target, Kind.FINE)

    def _problems(self, moment: Moment, chance: Random) -> Iterator[tuple[Kind, str]]:
        first = self.run(moment)
        yield from _tracebacks(self.job, first)
        yield from self._lost()
        # What was there and could not be put back stays beside its place until it is read.
        waits = self.job.replaces and not (self.folder / self.job.out).exists()
        if (first.code == 0 or moment.fault is Fault.FULL) and not waits:
            yield from self._leftovers(but=self.job.keeps if first.code else "")
        _tear(self._hidden(), chance)
        found = self.see()
        if any(fit.status is Status.INTERRUPTED for fit in _fits(found)):
            return  # Ctrl-C gives a fit of fewer iterations, as documented
        if not self._is_allowed(found):
            changed = difference(self.after, found, rounding=ROUNDING)
            yield Kind.DIFFERENT, f"after the fault: {changed}"
        second = self.run(Moment(Fault.NONE))
        yield from _tracebacks(self.job, second)
        yield from self._lost()
        done = self._is_after(found) and not self.job.replaces and "already" in second.text
        if second.code and not done:
            yield Kind.LOST, f"the same again fails: {second.text[-200:]}"
        yield from self._leftovers()
        changed = difference(self.after, self.see(), rounding=ROUNDING)
        if changed:
            yield Kind.DIFFERENT, f"after the same again: {changed}"

    def _is_after(self, found: Any) -> bool:
        return not difference(self.after, found, rounding=ROUNDING)

    def _is_allowed(self, found: Any) -> bool:
        """Whether this is the state before, the state after, or whole parts of it."""
        if self._is_after(found) or not difference(self.before, found, rounding=ROUNDING):
            return True
        if not self.job.grows or found is None:
            return False
        known = [point for seen in (self.before, self.after) if seen for point in seen[0].points]
        for point in found[0].points:
            if not any(_is_part(point, one) for one in known if one.member == point.member):
                return False
        return True

    def _hidden(self) -> list[Path]:
        found = self.folder.rglob(".*")
        return [path for path in found if path.name != ".hidden"]

    def _leftovers(self, but: str = "") -> Iterator[tuple[Kind, str]]:
        for path in self._hidden():
            name = re.sub(r"-\w+-\d+-[0-9a-f]{12}", "-...", str(path.relative_to(self.folder)))
            yield Kind.LOST, f"left behind: {name}"
        for name in sorted(self._names() - self.names - {but}):
            yield Kind.LOST, f"left behind: {name}"

    def _names(self) -> frozenset[str]:
        return frozenset(path.name for path in self.folder.iterdir())

    def _lost(self) -> Iterator[tuple[Kind, str]]:
        """Yield the files that are not as they were, except those that the job replaces."""
        out = Path(self.job.out)
        figures = {out.with_name(f"{n}.svg") for n in ("frontier", "embeddings", out.stem)}
        for path in self.original.rglob("*"):
            place = path.relative_to(self.original)
            written = place in figures or out in (place, *place.parents)
            if path.is_dir() or (self.job.replaces and written and not self.job.grows):
                continue
            if place in self.rewritten or self._is_moved(place):
                continue
            if self._is_changed(place):
                yield Kind.LOST, f"{place} is gone or changed"

    def _is_moved(self, place: Path) -> bool:
        """Whether its folder was moved aside; it is put back when its place is opened."""
        folder, before = (self.folder / place).parent, self.original / place
        aside = folder.parent.glob(f".{folder.name}-*/old/{place.name}")
        return not folder.exists() and any(p.read_bytes() == before.read_bytes() for p in aside)

    def _changed(self) -> Iterator[Path]:
        """Yield the places of files that are not as they were."""
        places = (path.relative_to(self.original) for path in self.original.rglob("*"))
        return (place for place in places if self._is_changed(place))

    def _is_changed(self, place: Path) -> bool:
        before, now = self.original / place, self.folder / place
        if before.is_dir():
            return False
        return not now.exists() or now.read_bytes() != before.read_bytes()


def _is_part(point: Any, whole: Any) -> bool:
    """Whether a point has the fit of another, and some of what was computed for it."""
    parts = [(point.fit, whole.fit), (point.audit, whole.audit)]
    parts.append((point.evaluation, whole.evaluation))
    return not any(a is not None and difference(a, b, rounding=ROUNDING) for a, b in parts)


def _fits(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple):
        for part in found:
            yield from _fits(part)
    elif hasattr(found, "status"):
        yield found


def _tracebacks(job: Job, end: End) -> Iterator[tuple[Kind, str]]:
    if job.target.startswith("parafair") and "Traceback" in end.text:
        yield Kind.TRACEBACK, end.text.strip().splitlines()[-1][:200]


def _tear(hidden: list[Path], chance: Random) -> None:
    """Cut temporary files, as if they had not been written to the end."""
    for path in hidden:
        inner = [path] if path.is_file() else [*path.rglob("*")]
        for file in inner:
            whole = (file.parent / MANIFEST_FILE).exists()
            if file.is_file() and not whole and chance.random() < 0.5:
                data = file.read_bytes()
                file.unlink()  # it may be a second name of the result
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
    start()
    chance = Random(seed)
    original = prepare(folder / "original")
    scenes = [Scene.make(job, original, folder / "work") for job in JOBS]
    plans = [moments(scene, chance) for scene in scenes]
    while True:
        for scene, plan in zip(scenes, plans, strict=True):
            yield scene.attempt(next(plan), chance)
