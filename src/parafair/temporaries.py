"""Hidden temporary files beside the file or folder that they become, and what is left of them.

Their names tell which process made them, so that those of a process that was killed can be removed
when the next one starts.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

# The last file of a folder that is complete.
MANIFEST_FILE = "manifest.json"
# Whether a process of another machine still runs is not known here: its temporary files are removed
# when nothing was written to them for this long.
STALE_SECONDS = 24 * 3600.0
# What is appended to the name of a file: a machine, a process and a random number.
OWNER = r"-(\w+)-(\d+)-[0-9a-f]{12}"


def digest_of(path: Path) -> str:
    """Return the checksum of a file, which may be larger than memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_digest(value: object) -> bool:
    """Tell whether a value is a checksum, which says nothing to a reader."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _host() -> str:
    return re.sub(r"\W", "_", socket.gethostname())[:40]


def temporary(path: Path) -> Path:
    """Return a hidden name in the same folder that tells whose it is.

    That of a temporary file is one of the file which it becomes, so that it is found there too.
    """
    becomes = re.fullmatch(rf"\.(.+){OWNER}", path.stem)
    stem = becomes[1] if becomes else _short(path.stem)
    owner = f"{_host()}-{os.getpid()}-{uuid4().hex[:12]}"
    return path.with_name(f".{stem}-{owner}{path.suffix}")


def _short(name: str) -> str:
    """Return a name of at most 80 characters that no other name has."""
    return name if len(name) <= 80 else name[:60] + hashlib.sha256(name.encode()).hexdigest()[:20]


def put_back(path: Path) -> None:
    """Undo what processes that were killed left undone: remove their temporary files.

    If a process was killed while it replaced a folder, the new folder is kept if it is complete;
    otherwise the old one is put back. What was being written inside a folder is removed too.

    Args:
        path: The file or folder that they were writing.
    """
    stem, suffix = re.escape(_short(path.stem)), re.escape(path.suffix)
    with suppress(OSError):  # no such folder, or not ours to clean
        for beside in _leftovers(path.absolute().parent, stem, suffix):
            content, old = beside / "content", beside / "old"
            if not path.exists() and old.exists():
                (content if (content / MANIFEST_FILE).exists() else old).rename(path)
            _remove(beside)
    with suppress(OSError):  # no folder, or not there
        for inside in _leftovers(path):
            # What was moved away for a new folder is put back when its place is opened; after the
            # new folder took its place, nobody needs it.
            if not ((inside / "old").exists() and (inside / "content").exists()):
                _remove(inside)


def is_there(path: Path) -> bool:
    """Whether a file or folder exists; one that a killed process was replacing is put back first.

    Args:
        path: The file or folder.
    """
    if not path.exists():
        put_back(path)
    return path.exists()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _leftovers(folder: Path, stem: str = ".+", suffix: str = ".*") -> list[Path]:
    """Return temporary files of processes that have ended, for targets of these patterns."""
    name = re.compile(rf"\.{stem}{OWNER}{suffix}")
    found = ((path, name.fullmatch(path.name)) for path in folder.iterdir())
    return [path for path, match in found if match and _is_dead(match[1], int(match[2]), path)]


def _is_dead(host: str, process: int, beside: Path) -> bool:
    """Whether the process that made a temporary file has ended."""
    if host == _host() and os.name == "posix":
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):  # no process can have such a number
            return True
        except PermissionError:
            return False
        return False
    return time.time() - _last_change(beside) > STALE_SECONDS


def _last_change(path: Path) -> float:
    """Return when a file, or anything in a folder, was last written to.

    The time of a folder itself is that of its last new name, which a long sort leaves far behind.
    """
    times = []
    for part in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):  # its process may be at work
            times.append(part.stat().st_mtime)
    return max(times, default=time.time())
