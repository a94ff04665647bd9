"""Work in a process of its own that is killed, interrupted or runs out of disk."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch

# Operations on files, as Python's audit events name them; also what they change.
CHANGES = {"os.rename", "os.link", "os.mkdir", "os.truncate"}
EVENTS = CHANGES | {"open", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}
# From the start of this module on, processes are copies of one that has imported everything.
PROCESSES = multiprocessing.get_context("forkserver")


class Fault(Enum):
    """What happens at the moment."""

    KILL = "SIGKILL"
    TERMINATE = "SIGTERM"
    INTERRUPT = "SIGINT"
    FULL = "the disk is full"
    NONE = "nothing"


@dataclass(frozen=True)
class Moment:
    """When a fault comes.

    Attributes:
        fault: The fault.
        operation: Before which operation on files; None for a time.
        seconds: After which time; with `Fault.FULL`, how many bytes a file may have.
    """

    fault: Fault
    operation: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.operation is not None:
            return f"{self.fault.value} before operation {self.operation}"
        if self.fault is Fault.FULL:
            return f"no file larger than {self.seconds:.0f} bytes"
        return f"{self.fault.value} after {self.seconds:.3f} s"


@dataclass(frozen=True)
class End:
    """How a process ended.

    Attributes:
        code: Its exit code; negative for a signal.
        text: What it printed.
        operations: How many operations on files it began.
    """

    code: int
    text: str
    operations: int


def start() -> None:
    """Start the process that all others are copies of, so that it takes no time later."""
    process = PROCESSES.Process(target=os.getpid)
    process.start()
    process.join()


def run_with(
    fault: Moment, work: Callable[[str], None], name: str, folder: Path, beside: Path
) -> End:
    """Do a piece of work in a new process.

    Args:
        fault: What happens to it, and when.
        work: A function of a module; called with `name`.
        name: Which work it is.
        folder: The current folder of the process; operations on files in it count.
        beside: An existing folder for what it prints.
    """
    text, count = beside / "printed.txt", beside / "operations.txt"
    for path in (text, count):
        path.write_bytes(b"")
    process = PROCESSES.Process(target=_child, args=(fault, work, name, folder, text, count))
    process.start()
    process.join()
    printed = text.read_text(encoding="utf-8", errors="replace")
    assert process.exitcode is not None
    return End(process.exitcode, printed, int(count.stat().st_size))


def _child(
    fault: Moment,
    work: Callable[[str], None],
    name: str,
    folder: Path,
    text: Path,
    count: Path,
) -> None:
    """Do the work, with the fault to come."""
    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "200"
    os.chdir(folder)
    printed = os.open(text, os.O_WRONLY)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counter = os.open(count, os.O_WRONLY | os.O_APPEND)
    try:
        _arm(fault, str(folder), counter)
        work(name)
    except KeyboardInterrupt:
        # Here it would be shown with a traceback; the command has a hook that does not show it.
        sys.exit(130)


def _arm(fault: Moment, folder: str, counter: int) -> None:
    """Make the fault come."""
    if fault.operation is None and fault.fault is Fault.FULL:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(fault.seconds), int(fault.seconds)))
    elif fault.operation is None and fault.fault is not Fault.NONE:
        if fault.fault is Fault.INTERRUPT:
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        # Without a handler the signal ends the process at once, wherever it is.
        signal.setitimer(signal.ITIMER_REAL, max(fault.seconds, 1e-6))
    done = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        if event not in EVENTS or not _is_in(folder, arguments[0]):
            return
        done += 1
        if fault.operation is None or fault.fault is Fault.NONE:
            os.write(counter, b".")
        elif fault.fault is Fault.FULL:
            if done >= fault.operation and (event in CHANGES or _writes(event, arguments)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif done == fault.operation:
            signal.raise_signal(getattr(signal, fault.fault.value))

    sys.addaudithook(watch)


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _is_in(folder: str, path: Any) -> bool:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    return os.path.abspath(os.fsdecode(path)).startswith(folder)  # noqa: PTH100  (no link is read)
