"""The files of an encoder in the folder of a model: one place for all kinds of encoders.

Tensors are stored as they are, and all other fields as plain values with the name of the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from parafair.encoders.base import Encoder
from parafair.encoders.registry import ENCODERS
from parafair.stored import (
    is_stored,
    read_arrays,
    read_record,
    reading,
    write_arrays,
    write_record,
)

ENCODER_FILE, ENCODER_ARRAYS_FILE = "encoder.json", "encoder.safetensors"
FORMAT = 1


def write_encoder(folder: Path, encoder: Encoder) -> None:
    """Write an encoder into an existing folder."""
    arrays: dict[str, Tensor] = {}
    settings, several = {}, {}
    for field in fields(encoder):  # type: ignore[arg-type]
        value = getattr(encoder, field.name)
        if isinstance(value, Tensor):
            arrays[field.name] = value
        elif isinstance(value, tuple) and value and all(isinstance(v, Tensor) for v in value):
            arrays |= {f"{field.name}.{place}": each for place, each in enumerate(value)}
            several[field.name] = len(value)
        else:
            settings[field.name] = value
    write_arrays(folder / ENCODER_ARRAYS_FILE, arrays)
    record = {"name": type(encoder).__name__, "settings": settings, "several": several}
    write_record(folder / ENCODER_FILE, {"format": FORMAT, **record})


def read_encoder(
    folder: Path, shape: tuple[int, ...], rank: int, *, classes: Iterable[type] = ()
) -> Encoder | None:
    """Return the encoder that `write_encoder` wrote; None if the folder has none.

    Models that were saved before there were encoders have none.

    Args:
        folder: The folder of the model.
        shape: Shape of the model.
        rank: Its rank.
        classes: Additional classes that the encoder may have.
    """
    file = folder / ENCODER_FILE
    if not is_stored(file):
        return None
    record = read_record(file, file_format=FORMAT)
    arrays = read_arrays(folder / ENCODER_ARRAYS_FILE)
    known = {kind.__name__: kind for kind in (*ENCODERS, *classes)}
    with reading(file):
        if record["name"] not in known:
            raise ValueError(
                f"it has the class {record['name']!r}, which is not known here; pass your own "
                "classes, for example FairCP.load(folder, classes=[MyEncoder])"
            )
        encoder = _rebuild(known[record["name"]], record, arrays)
    with reading(folder / ENCODER_ARRAYS_FILE):
        if not all(bool(array.isfinite().all()) for array in arrays.values()):
            raise ValueError("its arrays have entries that are not finite")
        encoder.check(shape, rank)
    return encoder


def _rebuild(kind: type, record: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Encoder:
    """Return the encoder of a class from what was stored."""
    several: Mapping[str, int] = record["several"]
    values = {name: _plain(value) for name, value in record["settings"].items()}
    values |= {
        name: tuple(arrays[f"{name}.{place}"] for place in range(count))
        for name, count in several.items()
    }
    values |= {name: array for name, array in arrays.items() if name.split(".")[0] not in several}
    encoder = kind(**values)
    if not isinstance(encoder, Encoder):
        raise ValueError(f"{kind.__name__} is no encoder")
    return encoder


def _plain(value: Any) -> Any:
    """Return a value of JSON as it was written: lists were tuples."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value
