"""Files: folders that appear whole or not at all, and reading that never unpickles."""

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

# What a run and a written data set consist of. Overwriting one deletes its folder, which must
# not hold anything else.
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
    """Give a temporary folder that takes the wanted name when the block ends well.

    An existing folder is refused unless `overwrite`, and then it is replaced only after the
    new one is complete. If anything goes wrong, nothing on disk has changed.

    Args:
        folder: The name it shall have.
        overwrite: Whether it may replace a folder of the same name.
        ours: Patterns of the files such a folder may hold; any other one protects it.
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
        # Between the two renames the old run has another name; it is never gone before the
        # new one is there.
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
    """Raise if a folder cannot be created, before any work is done."""
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
    """Give a temporary file that takes the wanted name when the block ends well."""
    check_new_file(path, overwrite=overwrite)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.absolute().parent))
    try:
        yield beside / path.name
        (beside / path.name).replace(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise before any work if a file cannot be written later, or would be lost."""
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
    """Raise unless there is such a file with one of these endings."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    if path.suffix not in suffixes:
        raise ValueError(f"{path} must be a {' or '.join(suffixes)} file, got {path.suffix!r}")


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is never seen half-written."""
    beside = path.with_name(f".{path.name}-{uuid4().hex}")
    with beside.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
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


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object so that the file is never seen half-written."""
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")
