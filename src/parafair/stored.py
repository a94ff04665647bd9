"""The files of models and frontiers: written with checksums, and checked when they are read.

A record is a JSON file with its own checksum, because audits are added to a folder later. The
manifest of a folder has the checksums of all files that the folder was created with. A changed
byte is therefore refused and never read as another model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load, save_file
from torch import Tensor

from parafair.records import plain
from parafair.storage import (
    DAMAGE,
    MANIFEST_FILE,
    is_sealed,
    new_file,
    parse_json,
    read_bytes,
    seal,
    write_json,
)

FIT_AGAIN = "fit again, or use a copy of the folder"


@contextmanager
def reading(path: Path, remedy: str = FIT_AGAIN) -> Iterator[None]:
    """Turn every error about the content of a file into a `ValueError` that names the file."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged or incomplete ({what}); {remedy}") from error


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON with its checksum, whole or not at all."""
    write_json(path, seal(plain(record)))


def read_record(path: Path, *, file_format: int | None = None) -> dict[str, Any]:
    """Return a record that `write_record` wrote, without its checksum and format.

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
        if path.name in manifest and manifest[path.name] != hashlib.sha256(data).hexdigest():
            raise _changed(path)
    return {name: value for name, value in record.items() if name not in ("sha256", "format")}


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> None:
    """Write arrays in the format of safetensors, whole or not at all."""
    with new_file(path, overwrite=True) as file:
        found = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
        save_file(found, file)


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Return finite arrays that `write_arrays` wrote into a folder with a manifest."""
    with reading(path):
        data = read_bytes(path)
        if _manifest(path.parent).get(path.name) != hashlib.sha256(data).hexdigest():
            raise _changed(path)
        return load(data)


def _manifest(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder by file; empty if it has no manifest."""
    file = folder / MANIFEST_FILE
    if not file.exists():
        return {}
    record = parse_json(file, read_bytes(file))
    if not is_sealed(record):
        raise _changed(file)
    return dict(record["files"])


def _changed(path: Path) -> ValueError:
    return ValueError(
        f"{path} does not match its checksum; it was changed after it was written: {FIT_AGAIN}"
    )
