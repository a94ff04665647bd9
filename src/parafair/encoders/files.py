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
    check_numbers,
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
    record = _describe(encoder, arrays, "")
    write_arrays(folder / ENCODER_ARRAYS_FILE, arrays)
    write_record(folder / ENCODER_FILE, {"format": FORMAT, **record})


def _describe(encoder: Encoder, arrays: dict[str, Tensor], within: str) -> dict[str, Any]:
    """Return the class and the settings of an encoder; add its arrays under names of their own."""
    settings, several, encoders = {}, {}, {}
    for field in fields(encoder):  # type: ignore[arg-type]
        value, name = getattr(encoder, field.name), within + field.name
        if isinstance(value, Tensor):
            arrays[name] = value
        elif isinstance(value, Encoder):
            encoders[field.name] = _describe(value, arrays, f"{name}/")
        elif isinstance(value, tuple) and value and all(isinstance(v, Tensor) for v in value):
            arrays.update({f"{name}.{place}": each for place, each in enumerate(value)})
            several[field.name] = len(value)
        else:
            settings[field.name] = value
    return {
        "name": type(encoder).__name__,
        "settings": settings,
        "several": several,
        "encoders": encoders,
    }


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
        encoder = _rebuild(record, arrays, known)
    with reading(folder / ENCODER_ARRAYS_FILE):
        check_numbers(arrays, "arrays")
        encoder.check(shape, rank)
    return encoder


def _rebuild(
    record: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    known: Mapping[str, type],
    within: str = "",
) -> Encoder:
    """Return the encoder that `_describe` described."""
    if record["name"] not in known:
        raise ValueError(
            f"it has the class {record['name']!r}, which is not known here; pass your own "
            "classes, for example FairCP.load(folder, classes=[MyEncoder])"
        )
    values = {name: _plain(value) for name, value in record["settings"].items()}
    for name, count in record["several"].items():
        values[name] = tuple(arrays[f"{within}{name}.{place}"] for place in range(count))
    for name, inner in record["encoders"].items():
        values[name] = _rebuild(inner, arrays, known, f"{within}{name}/")
    own = [name.removeprefix(within) for name in arrays if name.startswith(within)]
    values |= {name: arrays[within + name] for name in own if not set("./") & set(name)}
    encoder = known[record["name"]](**values)
    if not isinstance(encoder, Encoder):
        raise ValueError(f"{record['name']} is no encoder")
    return encoder


def _plain(value: Any) -> Any:
    """Return a value of JSON as it was written: lists were tuples."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value
