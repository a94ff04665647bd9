"""The files of models and frontiers: written with checksums, and checked when they are read.

The manifest of a folder has the checksums of all files that the folder was created with. A record
is a JSON file with its own checksum. If it is added to a folder later, such as an audit, it also
has the checksum of the manifest. A changed byte, a missing file and a file of another folder are
therefore refused and never read as another model.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from parafair.errors import ParafairWarning
from parafair.records import plain
from parafair.storage import (
    DAMAGE,
    is_sealed,
    parse_json,
    read_bytes,
    seal,
    write_bytes,
    write_json,
)
from parafair.temporaries import MANIFEST_FILE, digest_of

FIT_AGAIN = "fit again, or use a copy of the folder"


@contextmanager
def reading(path: Path | str, remedy: str = FIT_AGAIN) -> Iterator[None]:
    """Turn every error about the content of a file into a `ValueError` that names the file."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged or incomplete ({what}); {remedy}") from error


def write_record(path: Path, record: Mapping[str, Any], *, overwrite: bool = True) -> None:
    """Write a record as JSON with its checksum, whole or not at all."""
    folder = _manifest_if_ours(path.parent)
    added = {} if folder is None else {"folder": folder["sha256"]}
    write_json(path, seal({**plain(record), **added}), overwrite=overwrite)


def read_record(path: Path, *, file_format: int | None = None) -> dict[str, Any]:
    """Return a record that `write_record` wrote, without its checksums and format.

    Args:
        path: The file.
        file_format: The format that this version reads; None for records without one.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it was changed, or has another format.
    """
    with reading(path):
        data = read_bytes(path)
        record = parse_json(path, data)
        found = record.get("format")
        if found != file_format:
            raise ValueError(
                f"{path} has format {found!r}, but this version of parafair reads format "
                f"{file_format!r}; fit again, or install the version that wrote it"
            )
        if not is_sealed(record):
            raise _changed(path)
        manifest = _manifest(path.parent)
        if manifest is not None and not _belongs(path.name, data, record, manifest):
            raise _changed(path, f" in {path.with_name(MANIFEST_FILE)}")
    added = ("sha256", "format", "folder")
    return {name: value for name, value in record.items() if name not in added}


def _belongs(
    name: str, data: bytes, record: Mapping[str, Any], manifest: Mapping[str, Any]
) -> bool:
    """Whether a folder was created with this file, or the record was added to this folder.

    A record that was added later may replace one that the folder was created with.
    """
    created = manifest["files"].get(name) == hashlib.sha256(data).hexdigest()
    return created or bool(record.get("folder") == manifest["sha256"])


def is_stored(path: Path) -> bool:
    """Whether a file exists.

    Raises:
        FileNotFoundError: If it does not, but its folder was created with it.
    """
    if path.is_file():
        return True
    manifest = _manifest_if_ours(path.parent)
    if manifest is not None and path.name in manifest["files"]:
        raise FileNotFoundError(f"{path} is missing; {FIT_AGAIN}")
    return False


def warn_if_changed(path: Path) -> None:
    """Warn if a file of data is not what parafair wrote; its owner may have changed it."""
    manifest = _manifest_if_ours(path.parent)
    if manifest is None or path.name not in manifest["files"]:
        return
    if manifest["files"][path.name] != hashlib.sha256(read_bytes(path)).hexdigest():
        warnings.warn(
            f"{path} was changed after parafair wrote it; if you did not change it, write the "
            "data set again",
            ParafairWarning,
            stacklevel=2,
        )


def check_digest(path: Path, remedy: str) -> None:
    """Raise unless a file is what its folder was created with; it may be larger than memory.

    Args:
        path: The file.
        remedy: What to do if it is not.
    """
    manifest = _manifest(path.parent)
    if manifest is None:
        raise FileNotFoundError(f"{path.with_name(MANIFEST_FILE)} is missing; {remedy}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; {remedy}")
    with reading(path, remedy):
        if manifest["files"].get(path.name) != digest_of(path):
            raise ValueError(f"it does not match its checksum in {MANIFEST_FILE}")


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> None:
    """Write arrays in the format of safetensors, whole or not at all."""
    found = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
    write_bytes(path, save(found))


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Return the arrays that `write_arrays` wrote into a folder with a manifest."""
    with reading(path):
        data, manifest = read_bytes(path), _manifest(path.parent)
        if manifest is None:
            raise FileNotFoundError(f"{path.with_name(MANIFEST_FILE)} is missing; {FIT_AGAIN}")
        if manifest["files"].get(path.name) != hashlib.sha256(data).hexdigest():
            raise _changed(path, f" in {path.with_name(MANIFEST_FILE)}")
        return load(data)


def check_numbers(arrays: Mapping[str, Tensor], what: str, *, largest: float = inf) -> None:
    """Raise unless all entries of arrays are finite, in single or double precision.

    Args:
        arrays: The arrays of a file, by name.
        what: What they are, for the message.
        largest: The largest entry that is possible.
    """
    for name, array in arrays.items():
        if array.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"its {what} must be float32 or float64, but {name} is {array.dtype}")
    if not all(bool(array.isfinite().all()) for array in arrays.values()):
        raise ValueError(f"its {what} have entries that are not finite")
    if not all(bool((array.abs() <= largest).all()) for array in arrays.values()):
        raise ValueError(f"its {what} have entries beyond {largest:g}, which no fit has")


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Return the record of the checksums of a folder; None if it has none."""
    file = folder / MANIFEST_FILE
    if not file.exists():
        return None
    with reading(file):
        record = parse_json(file, read_bytes(file))
        if not is_sealed(record) or not isinstance(record["files"], dict):
            raise _changed(file)
    return record


def _manifest_if_ours(folder: Path) -> dict[str, Any] | None:
    """Return the same; None also if it is damaged, or another program's file of this name."""
    try:
        return _manifest(folder)
    except (ValueError, OSError):
        return None


def _changed(path: Path, where: str = "") -> ValueError:
    return ValueError(
        f"{path} does not match its checksum{where}; it was changed after it was written: "
        f"{FIT_AGAIN}"
    )
