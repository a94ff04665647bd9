"""Files and folders: written whole or not at all, read without unpickling, checked by checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from parafair.arguments import as_path, flag, has_ending
from parafair.disk import check_writable, full_disk_named
from parafair.errors import shown
from parafair.records import plain
from parafair.temporaries import MANIFEST_FILE, digest_of, is_digest, put_back, temporary

# Files of a run and of a written data set. Overwriting deletes the folder, so it must not hold
# anything else.
TABLES = ("embedding", "factor_*", "side_factor", "core")
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
        "encoder.json",
        "encoder.safetensors",
        *(f"{name}.{end}" for name in TABLES for end in ("csv", "parquet")),
        "evaluation.json",
        "audit.json",
        "certificate.json",
    }
)
DATASET_FILES = frozenset(
    {MANIFEST_FILE, "tensor.npy", "entries.csv", "sensitive.csv", "target.csv"}
)

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
    beside = temporary(folder)
    content, old = beside / "content", beside / "old"
    try:
        _make_folder(content, folder)
        with full_disk_named(folder):
            yield content
            _write_manifest(content)
        _install(content, folder, old if overwrite else None)
        created = []
    finally:
        if folder.exists() or not old.exists():  # else the next process puts it back
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
    try:
        if old is not None:
            # The old folder is deleted last, so that one of the two always exists.
            with suppress(FileNotFoundError):  # none, or another process has just moved it
                folder.rename(old)
        if folder.exists() and os.name == "nt":
            folder.rmdir()  # only if it is empty; elsewhere the next line replaces an empty one
        content.rename(folder)
    except BaseException as error:  # also Ctrl-C between the two renames
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _written_meanwhile(folder) from error
        if old is not None and old.exists() and not folder.exists():
            old.rename(folder)
        raise


def _written_meanwhile(folder: Path) -> FileExistsError:
    return FileExistsError(
        f"{folder} was written by another process at the same time, and is kept as that wrote it; "
        "choose another folder"
    )


def check_new_folder(
    folder: str | Path, *, overwrite: bool, ours: frozenset[str] = RUN_FILES
) -> None:
    """Raise if a folder cannot be created; call it before any work is done."""
    flag("overwrite", overwrite)
    folder = as_path("folder", folder).resolve()
    if folder == Path.cwd():
        raise FileExistsError(f"{folder} is the current folder; give the name of one to create")
    put_back(folder)
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


def _already_holds_files(folder: Path) -> FileExistsError:
    return FileExistsError(
        f"{folder} already holds files; choose another folder, or overwrite them with "
        "overwrite=True"
    )


@contextmanager
def new_file(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path with the same suffix and rename it when the block succeeds."""
    path = Path(path)
    check_new_file(path, overwrite=overwrite)
    beside = temporary(path)
    try:
        beside.touch()  # the system may refuse what permissions allow
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror}); choose another file"
        ) from error
    try:
        with full_disk_named(path):
            yield beside
        _rename(beside, path, overwrite=overwrite)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def new_files(paths: Sequence[Path], *, overwrite: bool = False) -> Iterator[dict[Path, Path]]:
    """Yield a temporary path of the same name for each file; rename all when the block succeeds.

    If writing one of them fails, none is changed.
    """
    for path in paths:
        check_new_file(path, overwrite=overwrite)
    beside = {path: temporary(path) for path in paths}
    try:
        with full_disk_named(paths[0] if paths else Path()):
            for folder in beside.values():
                folder.mkdir()
            yield {path: folder / path.name for path, folder in beside.items()}
        for path, folder in beside.items():
            _rename(folder / path.name, path, overwrite=overwrite)
    finally:
        for folder in beside.values():
            shutil.rmtree(folder, ignore_errors=True)


def _rename(beside: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a complete file to its final name."""
    if overwrite:
        beside.replace(path)
    else:
        _rename_new(beside, path)


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
    put_back(path)
    if path.is_dir():
        raise FileExistsError(f"{path} already exists and is a folder; choose another file")
    if path.exists() and not overwrite:
        raise _already_exists(path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
    check_writable(folder)


def _already_exists(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} already exists; choose another file, or overwrite it with overwrite=True"
    )


def read_tensor(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read one array of numbers from a .npy or .npz file; a .npy file can stay there, mapped."""
    check_file(path, (".npy", ".npz"))
    try:
        loaded = np.load(path, mmap_mode="c" if mapped else None, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if len(loaded.files) != 1:
                held = f"{len(loaded.files)}: {', '.join(loaded.files[:5])}"
                raise ValueError(f"it must hold one array, but holds {held}")
            return np.asarray(loaded[loaded.files[0]])
    except (*DAMAGE, OSError) as error:
        # NumPy takes every other file for pickled objects, and advises to load them.
        reason = "no file of NumPy, or Python objects" if "pickle" in str(error) else error
        raise ValueError(
            f"{path} could not be read as a NumPy array ({reason}); write it again with "
            "numpy.save, without Python objects"
        ) from error
    except MemoryError as error:  # the size is what the header claims
        raise MemoryError(
            f"{path} does not fit into memory ({error}); check that it is whole, or write a list "
            "of entries and sort it with parafair sort"
        ) from error


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless the file exists and its name ends in one of these suffixes."""
    path = as_path("path", path)
    if not path.exists():
        put_back(path.parent.resolve())
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    if not has_ending(path, suffixes):
        ends = f"must end in one of {', '.join(suffixes)}, got {path.suffix!r}; convert it"
        text = ", or rename a table of text to .csv, whatever its separator"
        raise ValueError(f"the path {shown(str(path))} {ends}{text * ('.csv' in suffixes)}")


def write_text(path: Path, text: str, *, overwrite: bool = True) -> None:
    """Write text as UTF-8, whole or not at all."""
    write_bytes(path, text.encode("utf-8"), overwrite=overwrite)


def write_bytes(path: Path, data: bytes, *, overwrite: bool = True) -> None:
    """Write a file, whole or not at all."""
    with new_file(path, overwrite=overwrite) as beside, beside.open("wb") as stream:
        stream.write(data)
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
    if not path.exists():
        put_back(path.parent.resolve())
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
            f"{path} is not readable as JSON ({error}); it may be truncated, or "
            "another kind of file: write it again, or use a copy"
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
    digests = {path.name: digest_of(path) for path in files}
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
    if found := list(changes(before, plain(now))):
        raise ValueError(
            f"{path} holds results with other settings ({'; '.join(found[:3])}); choose another "
            "folder, or repeat its settings to continue it"
        )


def changes(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """Yield the differences between settings, as text."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from changes(old, new, f"{within}{name} ")
        elif old != new and any(map(is_digest, (old, new))):
            yield f"{within}{name}: not the same"
        elif old != new:
            yield f"{within}{name}: {old!r} there, {new!r} now"
