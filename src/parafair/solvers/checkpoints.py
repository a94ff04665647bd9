"""Checkpoints: a long fit that was stopped continues where it was, with the same result.

A fit is a sequence of stages and solves that follows from its settings and its data. A checkpoint
has the results of those that have ended and the state of the one that runs. A fit that continues
takes the same way again: what has ended is not computed, and the solve that ran begins at its
state.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic
from typing import IO, Any, TypeVar

import torch

from parafair.arguments import real_number, whole_number
from parafair.disk import check_writable, full_disk_named
from parafair.errors import Terminated
from parafair.solvers.packing import is_packed, pack, unpack
from parafair.storage import check_same_settings, new_folder
from parafair.stored import read_arrays, read_record, reading, write_arrays, write_record
from parafair.team import Team
from parafair.temporaries import MANIFEST_FILE, put_back

if sys.platform != "win32":
    import fcntl

CURRENT_FILE, STATE_FILE, ARRAYS_FILE = "current.json", "state.json", "arrays.safetensors"
LOCK_FILE = ".lock"
FORMAT = 1
CHECKPOINT_MINUTES = 10.0
FILES = frozenset({MANIFEST_FILE, STATE_FILE, ARRAYS_FILE})
MOST_SAVES = 2**31  # the number is part of a file name
FULL = "is full; free some space and start the fit again: the checkpoint before, if any, stays"
AGAIN = "delete the folder of the checkpoint and fit again"

T = TypeVar("T")

_JOURNAL: ContextVar[Journal | None] = ContextVar("journal", default=None)


class Journal:
    """What a fit has computed so far, and where it is stored.

    Args:
        folder: The folder of the checkpoint.
        seconds: Time from one checkpoint to the next.
        team: All processes of the fit; each stores what it has.
        settings: What the results follow from; a checkpoint with others is refused.
    """

    def __init__(
        self, folder: Path, *, seconds: float, team: Team, settings: Mapping[str, Any]
    ) -> None:
        self.folder, self.seconds, self.team, self.settings = folder, seconds, team, settings
        self.number = 0
        self.stopped = False
        self._done: dict[str, Any] = {}
        self._running: tuple[str, Any] | None = None
        self._offered: tuple[str, Callable[[], Any]] | None = None
        self._path = [0]
        self._saved = monotonic()

    def read(self, device: torch.device) -> None:
        """Read the checkpoint in the folder, if there is one, to a device."""
        current = self.folder / CURRENT_FILE
        if not current.exists():
            return
        record = read_record(current, file_format=FORMAT)
        with reading(current, AGAIN):
            before = dict(record["settings"])
            self.number = whole_number("number", record["number"], most=MOST_SAVES)
        check_same_settings(self.folder, before, self.settings)
        own = self._place(self.number)
        # Copies: results differ in the last bit if memory is aligned in another way.
        found = read_arrays(own / ARRAYS_FILE)
        arrays = {name: array.to(device, copy=True) for name, array in found.items()}
        state = read_record(own / STATE_FILE, file_format=FORMAT)
        with reading(own / STATE_FILE, AGAIN):
            self._done = {key: unpack(each, arrays) for key, each in state["done"].items()}
            if state["running"] is not None:
                key, each = state["running"]
                self._running = (key, unpack(each, arrays))

    def begin(self) -> str:
        """Return the key of the next stage or solve."""
        self._path[-1] += 1
        return ".".join(map(str, self._path))

    def result(self, key: str) -> Any:
        """Return the result of a stage or solve that has ended; None if it has not."""
        return self._done.get(key)

    def state(self, key: str) -> Any:
        """Return the state of a solve that was running; None if it was not."""
        if self._running is None or self._running[0] != key:
            return None
        return self._running[1]

    def end(self, key: str, result: Any) -> None:
        """Keep the result of a stage or solve; those of the solves within are not needed."""
        self._done = {k: v for k, v in self._done.items() if not k.startswith(f"{key}.")}
        self._done[key] = result
        self._running = self._offered = None

    def stage(self, compute: Callable[[], Any]) -> Any:
        """Return the result of a stage, computed now or before."""
        key = self.begin()
        found = self.result(key)
        if found is None:
            self._path.append(0)
            try:
                found = compute()
            finally:
                self._path.pop()
            self.end(key, found)
        return found

    def offer(self, key: str, state: Callable[[], Any]) -> None:
        """Store the state of a solve after an iteration, if it is time or the process must end.

        Args:
            key: The key of the solve.
            state: Returns its state after the last finished iteration, whenever it is called.

        Raises:
            Terminated: If one of the processes was told to end.
        """
        self._offered = (key, state)
        due = monotonic() - self._saved >= self.seconds and self.team.rank == 0
        wishes = torch.tensor([due, self.stopped], dtype=torch.long, device="cpu")
        due, stopped = (bool(wish) for wish in self.team.sum(wishes))
        if due or stopped:
            self._save((key, state()))
        if stopped:
            raise Terminated(
                f"the fit was told to end (SIGTERM) and has stored a checkpoint in {self.folder}; "
                "start it again with the same settings to continue"
            )

    def interrupt(self) -> None:
        """Store what there is at Ctrl-C; several processes are not at the same iteration then."""
        if self.team.is_alone:
            offered = self._offered
            self._save(self._running if offered is None else (offered[0], offered[1]()))

    def _save(self, running: tuple[str, Any] | None) -> None:
        """Store everything: each process its own, and the last file by process 0."""
        number = self.number + 1
        arrays: dict[str, torch.Tensor] = {}
        kept = None
        if running is not None and is_packed(running[1]):
            kept = [running[0], pack(running[1], arrays)]
        done = {name: pack(each, arrays) for name, each in self._done.items()}
        with (
            full_disk_named(self.folder, FULL),
            new_folder(self._place(number), overwrite=True, ours=FILES) as beside,
        ):
            write_arrays(beside / ARRAYS_FILE, arrays)
            write_record(beside / STATE_FILE, {"format": FORMAT, "done": done, "running": kept})
        self.team.count(0)  # all of them have written
        if self.team.rank == 0:
            record = {"format": FORMAT, "number": number, "settings": self.settings}
            write_record(self.folder / CURRENT_FILE, record)
            shutil.rmtree(self._place(self.number).parent, ignore_errors=True)
        self.team.count(0)
        self.number, self._saved = number, monotonic()

    def _place(self, number: int) -> Path:
        return self.folder / f"save-{number}" / f"process-{self.team.rank}"


@contextmanager
def checkpointing(
    folder: Path | None,
    *,
    seconds: float,
    team: Team,
    settings: Mapping[str, Any],
    device: torch.device,
) -> Iterator[None]:
    """Store checkpoints of the fit in this block, and continue from one that is there.

    SIGTERM stores one more and ends the block, and so does Ctrl-C in a process alone. The folder is
    removed when the fit is complete: it has rows without noise. A folder that another fit uses is
    refused.

    Args:
        folder: The folder; None for no checkpoints.
        seconds: Time from one checkpoint to the next.
        team: All processes of the fit.
        settings: What the fit follows from, as plain values.
        device: The device of the fit.
    """
    if folder is None:
        yield
        return
    with _held(folder, team):
        journal = Journal(folder, seconds=seconds, team=team, settings=settings)
        journal.read(device)
        token = _JOURNAL.set(journal)
        try:
            with _on_sigterm(journal):
                yield
        except KeyboardInterrupt:
            journal.interrupt()
            raise
        finally:
            _JOURNAL.reset(token)
        team.count(0)
        if team.rank == 0:
            _remove(folder)


@contextmanager
def _held(folder: Path, team: Team) -> Iterator[None]:
    """Hold a folder while its fit runs: two fits would delete each other's checkpoints.

    Process 0 holds it. The system ends that with the process, also if it is killed.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    held: list[IO[str]] = []

    def hold() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform != "win32":
            held.append(_locked(folder))

    team.first(hold)
    try:
        yield
    finally:
        if team.rank == 0:
            with suppress(OSError):  # it is not empty, or removed
                (folder / LOCK_FILE).unlink(missing_ok=True)
                for path in created:
                    path.rmdir()
        for stream in held:
            stream.close()


if sys.platform != "win32":

    def _locked(folder: Path) -> IO[str]:
        """Return an open file that locks a folder; raise if another process has it."""
        stream = (folder / LOCK_FILE).open("a+")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            owner = stream.read(20)
            stream.close()
            raise FileExistsError(
                f"checkpoint {folder} is in use by process {owner}, a fit that still runs; wait "
                "until it has ended, or end it, or choose another folder (if torchrun is killed, "
                "its processes may go on)"
            ) from error
        except OSError:
            pass  # a file system without locks
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        return stream


def _remove(folder: Path) -> None:
    """Remove a checkpoint, and its folder unless somebody has put another file there."""
    with suppress(OSError):  # a short fit has stored nothing
        for name in (CURRENT_FILE, LOCK_FILE):
            (folder / name).unlink(missing_ok=True)
        for path in filter(_is_own, folder.iterdir()):
            shutil.rmtree(path, ignore_errors=True)
        folder.rmdir()


def _is_own(path: Path) -> bool:
    """Tell whether this is a part of a checkpoint, by its name."""
    return path.name == CURRENT_FILE or re.fullmatch(r"save-\d+", path.name) is not None


def check_checkpoint(folder: Path | None, minutes: float) -> None:
    """Raise unless a folder can have a checkpoint: it is new or empty, or has one.

    Args:
        folder: The folder; None for a fit without checkpoints, which needs no minutes.
        minutes: Minutes from one checkpoint to the next.
    """
    real_number("checkpoint_minutes", minutes, above=0)
    if folder is None:
        if minutes != CHECKPOINT_MINUTES:
            raise ValueError(
                f"checkpoint_minutes={float(minutes):g} is for fits with a checkpoint, but none "
                "was asked for; pass a folder as checkpoint, or leave checkpoint_minutes out"
            )
        return
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"checkpoint must be a folder, got the file {folder}; name another")
    put_back(folder)
    present = list(folder.iterdir()) if folder.exists() else []
    # Hidden files may be those of the system, or of a writer on another machine that was killed.
    foreign = sorted(
        path.name for path in present if not (_is_own(path) or path.name.startswith("."))
    )
    if foreign:
        raise FileExistsError(
            f"checkpoint {folder} holds other files ({', '.join(foreign[:5])}), but is for a "
            "checkpoint alone; choose another folder"
        )
    check_writable(next(path for path in (folder, *folder.absolute().parents) if path.exists()))


@contextmanager
def _on_sigterm(journal: Journal) -> Iterator[None]:
    """Let SIGTERM end the fit after its iteration; the handler before is set again."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def stop(*_: object) -> None:
        journal.stopped = True

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def current_journal() -> Journal | None:
    """Return the journal of the fit that runs; None without checkpoints."""
    return _JOURNAL.get()


@contextmanager
def without_journal() -> Iterator[None]:
    """Let the solves in this block store nothing: what they are part of does."""
    token = _JOURNAL.set(None)
    try:
        yield
    finally:
        _JOURNAL.reset(token)


def stage(compute: Callable[[], T]) -> T:
    """Return the result of a stage, computed now or before the fit was stopped."""
    journal = current_journal()
    found: T = compute() if journal is None else journal.stage(compute)
    return found
