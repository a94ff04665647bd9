"""Files and folders: written whole or not at all, read without unpickling."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from parafair.records import plain

# Files of a run and of a written data set. Overwriting deletes the folder, so it must not hold
# anything else.
RUN_FILES = frozenset(
    {
        "fit.json",
        "model.json",
        "training.json",
        "init.safetensors",
        "inputs.json",
        "tuning.json",
        "factors.safetensors",
        "embedding.csv",
        "embedding.parquet",
        "factor_*.csv",
        "factor_*.parquet",
        "evaluation.json",
        "audit.json",
    }
)
DATASET_FILES = frozenset({"tensor.npy", "entries.csv", "sensitive.csv"})


@contextmanager
def new_folder(
    folder: str | Path, *, overwrite: bool = False, ours: frozenset[str] = RUN_FILES
) -> Iterator[Path]:
    """Yield a temporary folder and rename it to `folder` when the block succeeds.

    An existing folder is refused unless `overwrite`. It is replaced only after the new one is
    complete. If the block raises, nothing on disk has changed.

    Args:
        folder: The final name.
        overwrite: Whether to replace a folder of the same name.
        ours: Patterns of the files that may be deleted. A folder with any other file is refused.
    """
    folder = Path(folder).resolve()
    check_new_folder(folder, overwrite=overwrite, ours=ours)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    old = beside.with_name(beside.name + "-old")
    try:
        content = beside / "content"
        content.mkdir()
        yield content
        # The old run is renamed first and deleted last, so that one of the two always exists.
        if folder.exists():
            folder.rename(old)
        try:
            content.rename(folder)
        except BaseException:  # Ctrl-C between the two renames included
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def check_new_folder(
    folder: str | Path, *, overwrite: bool, ours: frozenset[str] = RUN_FILES
) -> None:
    """Raise if a folder cannot be created; call it before any work is done."""
    folder = Path(folder).resolve()
    if folder == Path.cwd():
        raise FileExistsError(f"{folder} is the current folder; give the name of one to create")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise FileExistsError(f"{above} is a file; give the name of a folder to create")
    if not os.access(above, os.W_OK):
        raise PermissionError(f"{above} cannot be written to; choose another folder")
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if present and not overwrite:
        raise FileExistsError(
            f"{folder} already holds files; choose another folder, or allow overwriting "
            "(--force on the command line, overwrite=True in Python)"
        )
    foreign = sorted(n for n in present if not any(fnmatch(n, pattern) for pattern in ours))
    if foreign:
        raise FileExistsError(
            f"{folder} holds other files ({', '.join(foreign[:5])}), which would be lost; choose "
            "another folder"
        )


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path with the same suffix and rename it when the block succeeds."""
    check_new_file(path, overwrite=overwrite)
    beside = path.with_name(f".{path.stem}-{uuid4().hex}{path.suffix}")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise if a file cannot be written or would be lost; call it before any work is done."""
    if path.is_dir() or (path.exists() and not overwrite):
        remedy = "choose another file" if path.is_dir() else "choose another file, or use --force"
        raise FileExistsError(f"{path} already exists; {remedy}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist; create it first")


def read_tensor(path: Path) -> NDArray[Any]:
    """Read one array of numbers from a .npy or .npz file."""
    check_file(path, (".npy", ".npz"))
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if len(loaded.files) != 1:
                raise ValueError(
                    f"it must hold one array, but holds {len(loaded.files)}: "
                    f"{', '.join(loaded.files[:5])}"
                )
            array: NDArray[Any] = loaded[loaded.files[0]]
            return array
    except (ValueError, EOFError, OSError, BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} could not be read as a NumPy array ({error}); write it again with numpy.save, "
            "without Python objects"
        ) from error


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless the file exists and has one of these suffixes."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    if path.suffix not in suffixes:
        raise ValueError(f"{path} must be a {' or '.join(suffixes)} file, got {path.suffix!r}")


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, whole or not at all; an existing file is replaced."""
    with (
        new_file(path, overwrite=True) as beside,
        beside.open("w", encoding="utf-8", newline="") as stream,
    ):
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, record: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write a record as JSON, whole or not at all; undefined numbers become null."""
    write_text(path, json.dumps(plain(record), indent=indent, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it does not hold a JSON object.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist; give the folder of a saved run") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not readable as JSON ({error}); it may be truncated"
        ) from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(record).__name__}")
    return record


def check_same_settings(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise unless the results in a folder were made with the same settings.

    Args:
        path: The folder.
        before: Its settings, as read from JSON.
        now: The settings of this run.

    Raises:
        ValueError: If they differ; the message names the first differences.
    """
    changes = list(_changes(before, plain(now)))
    if changes:
        raise ValueError(
            f"{path} holds results with other settings ({'; '.join(changes[:3])}); choose another "
            "folder, or repeat its settings to continue it"
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, f"{within}{name} ")
        elif old != new:
            yield f"{within}{name}: {old!r} there, {new!r} now"
