"""Files and folders: written whole or not at all, read without unpickling, checked by checksums."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from tokenize import TokenError
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from parafair.arguments import as_path, flag
from parafair.records import plain

MANIFEST_FILE = "manifest.json"
# Files of a run and of a written data set. Overwriting deletes the folder, so it must not hold
# anything else.
RUN_FILES = frozenset(
    {
        MANIFEST_FILE,
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
DATASET_FILES = frozenset({MANIFEST_FILE, "tensor.npy", "entries.csv", "sensitive.csv"})

# What a reader of a damaged file may raise.
DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    SyntaxError,
    EOFError,
    BadZipFile,
    zlib.error,
    TokenError,
    SafetensorError,
)

# Temporary files of processes on other machines are removed when they are older than this.
STALE_SECONDS = 24 * 3600.0


@contextmanager
def new_folder(
    folder: str | Path, *, overwrite: bool = False, ours: frozenset[str] = RUN_FILES
) -> Iterator[Path]:
    """Yield a temporary folder and rename it to `folder` when the block succeeds.

    The checksums of its files are added as a manifest. An existing folder is refused unless
    `overwrite`. It is replaced only after the new one is complete. If the block raises, nothing on
    disk has changed. If several processes create the same folder, one of them succeeds.

    Args:
        folder: The final name.
        overwrite: Whether to replace a folder of the same name.
        ours: Patterns of the files that may be deleted. A folder with any other file is refused.
    """
    folder = as_path("folder", folder).resolve()
    check_new_folder(folder, overwrite=overwrite, ours=ours)
    created = [path for path in folder.parents if not path.exists()]
    beside = _temporary(folder)
    try:
        content, old = beside / "content", beside / "old"
        _make_folder(content, folder)
        yield content
        _write_manifest(content)
        _install(content, folder, old if overwrite else None)
        created = []
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        for path in created:
            with suppress(OSError):  # another process may use it by now
                path.rmdir()


def _make_folder(content: Path, folder: Path) -> None:
    """Make a folder beside `folder`; the system may refuse what permissions allow."""
    try:
        content.mkdir(parents=True)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be created ({error.strerror}); choose another folder"
        ) from error


def _install(content: Path, folder: Path, old: Path | None) -> None:
    """Rename a complete folder to its final name; move an existing one to `old` if given."""
    if old is not None and folder.exists():
        # The old folder is deleted last, so that one of the two always exists.
        folder.rename(old)
    try:
        if folder.exists() and os.name == "nt":
            folder.rmdir()  # only if it is empty; elsewhere the next line replaces an empty one
        content.rename(folder)
    except OSError as error:
        if old is not None and old.exists():
            old.rename(folder)
        if folder.is_dir():
            raise _already_holds_files(folder) from error
        raise
    except BaseException:  # Ctrl-C between the two renames
        if old is not None and old.exists() and not folder.exists():
            old.rename(folder)
        raise


def check_new_folder(
    folder: str | Path, *, overwrite: bool, ours: frozenset[str] = RUN_FILES
) -> None:
    """Raise if a folder cannot be created; call it before any work is done."""
    flag("overwrite", overwrite)
    folder = as_path("folder", folder).resolve()
    if folder == Path.cwd():
        raise FileExistsError(f"{folder} is the current folder; give the name of one to create")
    _remove_leftovers(folder)
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise FileExistsError(f"{above} is a file; give the name of a folder to create")
    for changed in (folder, folder.parent) if folder.exists() else (above,):
        check_writable(changed)
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if present and not overwrite:
        raise _already_holds_files(folder)
    foreign = sorted(n for n in present if not any(fnmatch(n, pattern) for pattern in ours))
    if foreign:
        raise FileExistsError(
            f"{folder} holds other files ({', '.join(foreign[:5])}), which would be lost; choose "
            "another folder"
        )


def check_writable(folder: Path) -> None:
    """Raise unless files can be created in a folder."""
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written to; choose another folder")


def _already_holds_files(folder: Path) -> FileExistsError:
    return FileExistsError(
        f"{folder} already holds files; choose another folder, or allow overwriting "
        "(--force on the command line, overwrite=True in Python)"
    )


@contextmanager
def new_file(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path with the same suffix and rename it when the block succeeds."""
    path = Path(path)
    check_new_file(path, overwrite=overwrite)
    beside = _temporary(path)
    try:
        beside.touch()  # the system may refuse what permissions allow
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror}); choose another file"
        ) from error
    try:
        yield beside
        if overwrite:
            beside.replace(path)
        else:
            _rename_new(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _rename_new(beside: Path, path: Path) -> None:
    """Rename a file; raise if another process has created one of this name."""
    try:
        os.link(beside, path)
    except FileExistsError as error:
        raise _already_exists(path) from error
    except OSError:  # this file system has no hard links
        check_new_file(path, overwrite=False)
        beside.replace(path)


def check_new_file(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise if a file cannot be written or would be lost; call it before any work is done."""
    flag("overwrite", overwrite)
    path = as_path("path", path)
    if path.is_dir():
        raise FileExistsError(f"{path} already exists and is a folder; choose another file")
    if path.exists() and not overwrite:
        raise _already_exists(path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
    check_writable(folder)
    _remove_leftovers(path)


def _already_exists(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} already exists; choose another file, or allow overwriting (--force on the "
        "command line, overwrite=True in Python)"
    )


def _host() -> str:
    return re.sub(r"\W", "_", socket.gethostname())[:40]


def _temporary(path: Path) -> Path:
    """Return a hidden name in the same folder that tells whose it is."""
    owner = f"{_host()}-{os.getpid()}-{uuid4().hex[:12]}"
    return path.with_name(f".{_short(path.stem)}-{owner}{path.suffix}")


def _short(name: str) -> str:
    """Return a name of at most 80 characters that no other name has."""
    return name if len(name) <= 80 else name[:60] + hashlib.sha256(name.encode()).hexdigest()[:20]


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed left behind for a target.

    If a process was killed while it replaced a folder, the new folder is kept if it is complete;
    otherwise the old one is put back.
    """
    name = rf"\.{re.escape(_short(path.stem))}-(\w+)-(\d+)-[0-9a-f]{{12}}{re.escape(path.suffix)}"
    with suppress(OSError):  # no such folder, or not ours to clean
        for beside in list(path.absolute().parent.iterdir()):
            found = re.fullmatch(name, beside.name)
            if found is None or not _is_dead(found[1], int(found[2]), beside):
                continue
            if beside.is_file():
                beside.unlink(missing_ok=True)
                continue
            content, old = beside / "content", beside / "old"
            if not path.exists() and old.exists():
                (content if (content / MANIFEST_FILE).exists() else old).rename(path)
            shutil.rmtree(beside, ignore_errors=True)


def _is_dead(host: str, process: int, beside: Path) -> bool:
    """Whether the process that made a temporary file has ended."""
    if host == _host() and os.name == "posix":
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False
    return time.time() - beside.stat().st_mtime > STALE_SECONDS


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
    except (*DAMAGE, OSError) as error:
        raise ValueError(
            f"{path} could not be read as a NumPy array ({error}); write it again with numpy.save, "
            "without Python objects"
        ) from error


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless the file exists and has one of these suffixes."""
    path = as_path("path", path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    if path.suffix not in suffixes:
        raise ValueError(f"{path} must be a {' or '.join(suffixes)} file, got {path.suffix!r}")


def write_text(path: Path, text: str, *, overwrite: bool = True) -> None:
    """Write text as UTF-8, whole or not at all."""
    with (
        new_file(path, overwrite=overwrite) as beside,
        beside.open("w", encoding="utf-8", newline="") as stream,
    ):
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, record: Mapping[str, Any], *, overwrite: bool = True) -> None:
    """Write a record as JSON, whole or not at all; undefined numbers become null."""
    text = json.dumps(plain(record), indent=1, allow_nan=False) + "\n"
    write_text(path, text, overwrite=overwrite)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it does not hold a JSON object.
    """
    return parse_json(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Return the content of a file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{path} does not exist; give the folder of a saved run") from error
    except OSError as error:
        raise OSError(f"{path} could not be read ({error.strerror}); check the path") from error


def parse_json(path: Path, data: bytes) -> dict[str, Any]:
    """Return the JSON object that a file holds."""
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not readable as JSON ({error}); it may be truncated"
        ) from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(record).__name__}")
    return record


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of plain values with its checksum as the entry "sha256"."""
    values = {name: value for name, value in record.items() if name != "sha256"}
    text = json.dumps(values, sort_keys=True, allow_nan=False)
    return {**values, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether a record has the checksum of its content."""
    return "sha256" in record and seal(record)["sha256"] == record["sha256"]


def _write_manifest(folder: Path) -> None:
    """Write the checksums of the files of a folder, as its last file."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    write_json(folder / MANIFEST_FILE, seal({"files": digests}))


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
