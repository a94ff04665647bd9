"""Disks: whether files can be created there, and what it means if there is no room for them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Bytes that must be free before any work is done; small results need less.
LEAST_FREE = 2**18

FULL = "is full; free some space, or choose another folder"


class FullDiskError(OSError):
    """The disk is full; the message says which, and what to do."""


def check_writable(folder: Path) -> None:
    """Raise unless files can be created in a folder."""
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written to; choose another folder")
    disk = shutil.disk_usage(folder)
    if not disk.total:  # a view of the system, such as /proc
        raise PermissionError(f"{folder} cannot hold files; choose another folder")
    if disk.free < LEAST_FREE:
        raise FullDiskError(f"the disk of {folder} {FULL}")


@contextmanager
def full_disk_named(path: Path, remedy: str = FULL) -> Iterator[None]:
    """Name the disk that becomes full, and what to do; the system says neither.

    Of several that are nested, the outermost names it: the others write temporary files.

    Args:
        path: The file or folder that is written.
        remedy: What follows the name.
    """
    try:
        yield
    except OSError as error:
        full = isinstance(error, FullDiskError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full:
            raise
        raise FullDiskError(f"the disk of {path} {remedy}") from error
