"""Lists of entries in: long tables and FROSTT files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.data.arrays import RawTensor
from parafair.data.cells import Duplicates, merge_cells
from parafair.data.frames import check_columns, open_table, read_labels, read_numbers
from parafair.data.labels import as_labels, locate
from parafair.errors import unknown_choice


def read_entries(
    table: Any,
    modes: Sequence[str],
    value: str,
    duplicates: Duplicates,
    labels: Mapping[str, Sequence[Any]],
) -> RawTensor:
    """Read a table with one row per observed entry, as `TensorData.from_table` says."""
    names = check_mode_columns(modes, value)
    for name in labels:
        if name not in names:
            raise unknown_choice("a key of labels", name, names)
    frame = open_table(table, labels=names)
    check_columns(frame, names, "a mode")
    check_columns(frame, [value], "value")
    found, places = [], []
    for name in names:
        column = read_labels(frame, name)
        if name in labels:
            distinct = as_labels(labels[name], f"labels[{name!r}]")
            place = locate(column, distinct, name)
        else:
            distinct, place = np.unique(column, return_inverse=True)
        found.append(distinct)
        places.append(place)
    numbers = read_numbers(frame, value)
    return _list(np.stack(places), numbers, duplicates, names, found, f"column {value!r}")


def read_tns(path: Path, duplicates: Duplicates) -> RawTensor:
    """Read a FROSTT file, as `TensorData.from_tns` says."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    try:
        rows = np.loadtxt(path, comments="#", ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} could not be read ({error}); expected lines of indices and a value"
        ) from error
    if rows.shape[0] == 0 or rows.shape[1] < 3:
        raise ValueError(
            f"{path} must hold lines of at least two indices and a value, got {rows.shape[0]} "
            f"lines of {rows.shape[1]} numbers"
        )
    indices = rows[:, :-1].T
    wrong = (indices < 1) | (indices != np.floor(indices))
    if wrong.any():
        raise ValueError(
            f"{path} has the index {indices[wrong][0]:g} in entry {int(wrong.any(0).argmax())}; "
            "indices must be whole numbers from 1 on"
        )
    labels = [np.arange(1, int(size) + 1) for size in indices.max(1)]
    modes = [f"mode_{mode}" for mode in range(len(labels))]
    return _list(indices.astype(np.int64) - 1, rows[:, -1], duplicates, modes, labels, str(path))


def check_mode_columns(modes: Sequence[str], value: str) -> tuple[str, ...]:
    """Return the columns of a long table, or raise unless they can be told apart."""
    if isinstance(modes, str):
        raise TypeError(f"modes must be a list of column names, got {modes!r}")
    names = tuple(modes)
    if len(names) < 2 or len({*names, value}) < len(names) + 1:
        raise ValueError(
            "modes must be at least 2 columns that differ from each other and from value, got "
            f"modes={list(names)} and value={value!r}"
        )
    return names


def _list(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    duplicates: Duplicates,
    modes: Sequence[str],
    labels: Sequence[NDArray[Any]],
    what: str,
) -> RawTensor:
    """Return the entries that are there, each once and in order."""
    there = ~np.isnan(values)
    if not there.any():
        raise ValueError(f"{what} has no values: all {len(values)} are missing")
    cells, merged = merge_cells(indices[:, there], values[there], duplicates, modes, labels)
    shape = tuple(map(len, labels))
    return RawTensor(
        torch.from_numpy(merged), torch.from_numpy(cells), shape, tuple(modes), tuple(labels)
    )
