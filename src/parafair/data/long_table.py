"""Long tables: one row per observed entry, from data frames, files and FROSTT files."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.arguments import instance_of, items, one_of
from parafair.data.arrays import RawTensor
from parafair.data.frames import (
    MEMORY_PER_BYTE_OF_TEXT,
    check_columns,
    check_memory,
    open_table,
    read_labels,
    read_numbers,
)
from parafair.data.labels import as_labels, locate
from parafair.errors import shown, unknown_choice

Duplicates: TypeAlias = Literal["error", "mean", "sum", "max", "first", "last"]

# What entries are that a list does not have.
Absent: TypeAlias = Literal["missing", "zero"]

# Memory for one index of a mode: its label, and a copy while labels are checked.
BYTES_PER_LABEL = 16


def read_entries(
    table: Any,
    modes: Sequence[str],
    value: str,
    duplicates: Duplicates,
    labels: Mapping[str, Sequence[Any]] | None,
    absent: Absent,
) -> RawTensor:
    """Read a table with one row per observed entry; see `TensorData.from_table`."""
    names = check_mode_columns(modes, value)
    one_of("duplicates", duplicates, get_args(Duplicates))
    one_of("absent", absent, get_args(Absent))
    remedy = "pass {mode: [label, ...]}"
    labels = instance_of("labels", {} if labels is None else labels, Mapping, remedy)  # type: ignore[type-abstract]
    for name in labels:
        if name not in names:
            raise unknown_choice("a key of labels", name, names)
    frame = open_table(table, labels=names)
    check_columns(frame, names, "a mode")
    check_columns(frame, [value], "value")
    found, indices = [], []
    for name in names:
        column = read_labels(frame, name)
        if name in labels:
            distinct = as_labels(labels[name], f"labels[{name!r}]")
            remedy = f"add them to labels[{name!r}], or drop these rows"
            index = locate(column, distinct, name, remedy=remedy)
        else:
            distinct, index = np.unique(column, return_inverse=True)
        found.append(distinct)
        indices.append(index)
    numbers = read_numbers(frame, value)
    listed = _collect(np.stack(indices), numbers, duplicates, names, found, f"column {value!r}")
    return _with_missing(listed, np.stack(indices)[:, np.isnan(numbers)], absent)


def read_tns(path: Path, duplicates: Duplicates, absent: Absent) -> RawTensor:
    """Read a FROSTT file; see `TensorData.from_tns`."""
    one_of("duplicates", duplicates, get_args(Duplicates))
    one_of("absent", absent, get_args(Absent))
    rows = _read_lines(path)
    if rows.shape[0] == 0 or rows.shape[1] < 3:
        raise ValueError(
            f"{path} must hold lines of at least two indices and a value, got {rows.shape[0]} "
            f"lines of {rows.shape[1]} numbers"
        )
    indices = rows[:, :-1].T
    # Larger indices are not exact in double precision.
    wrong = ~((indices >= 1) & (indices < 2**53) & (indices == np.floor(indices)))
    if wrong.any():
        entry = int(wrong.any(0).argmax())
        raise ValueError(
            f"{path} has the index {indices[wrong[:, entry], entry][0]:g} in entry {entry}; "
            "indices must be whole numbers from 1 to 2**53"
        )
    sizes = [int(size) for size in indices.max(1)]
    check_memory(
        BYTES_PER_LABEL * sum(sizes),
        f"a tensor of {' x '.join(map(str, sizes))} entries, the largest indices of {path},",
        "number the indices of each mode without gaps",
    )
    labels = [np.arange(1, size + 1) for size in sizes]
    modes = [f"mode_{mode}" for mode in range(len(labels))]
    places, values = indices.astype(np.int64) - 1, rows[:, -1]
    listed = _collect(places, values, duplicates, modes, labels, str(path))
    return _with_missing(listed, places[:, np.isnan(values)], absent)


def _read_lines(path: Path) -> NDArray[np.float64]:
    """Return the numbers of a FROSTT file, shape (lines, numbers)."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; check the path")
    check_memory(
        MEMORY_PER_BYTE_OF_TEXT * path.stat().st_size, f"reading {path}", "use a smaller file"
    )
    try:
        return np.loadtxt(path, comments="#", ndmin=2, dtype=np.float64)
    except (EOFError, zlib.error, OSError) as error:
        raise ValueError(
            f"{path} could not be read ({error}); it seems damaged or truncated: copy or download "
            "it again"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"the path {shown(str(path))} could not be read ({error}); expected a file with lines "
            "of indices and a value"
        ) from error


def check_mode_columns(modes: Sequence[str], value: str) -> tuple[str, ...]:
    """Return the mode columns of a long table, or raise unless all columns differ."""
    names = tuple(items("modes", modes, "names of columns"))
    text = all(isinstance(name, str) for name in (*names, value))
    if not text or len(names) < 2 or len({*names, value}) < len(names) + 1:
        raise ValueError(
            "modes must be names of at least 2 columns that differ from each other and from value, "
            f"got modes={shown(list(names))} and value={shown(value)}"
        )
    return names


def cell_keys(indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return one whole number per entry, in the same order as their indices; shape (count,).

    Args:
        indices: Indices of the entries, int64, shape (order, count).
        shape: Sizes of the modes; their product may exceed any number type.
    """
    keys, largest = indices[0], shape[0]
    for index, size in zip(indices[1:], shape[1:], strict=True):
        if largest * size >= 2**63:
            distinct, keys = torch.unique(keys, return_inverse=True)
            largest = len(distinct)
        keys, largest = keys * size + index, largest * size
    return keys


def sorted_cells(
    indices: Tensor, shape: tuple[int, ...], modes: Sequence[str]
) -> tuple[Tensor, Tensor | None]:
    """Return places in ascending order, and that order, None if they had it.

    A place that does not exist, or that occurs twice, is an error.

    Args:
        indices: Shape (order, count).
        shape: Sizes of the modes.
        modes: Their names.
    """
    sizes = torch.tensor(shape, dtype=torch.long, device=indices.device)[:, None]
    wrong = (indices < 0) | (indices >= sizes)
    if wrong.any():
        mode, cell = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"indices must be 0 to {shape[mode] - 1} in mode {modes[mode]!r}, got "
            f"{int(indices[mode, cell])} for entry {cell}"
        )
    keys = cell_keys(indices, shape)
    if not (keys[1:] <= keys[:-1]).any():
        return indices, None
    keys, order = keys.sort()
    if (keys[1:] == keys[:-1]).any():
        raise ValueError("indices has an entry more than once; merge their values first")
    return indices[:, order], order


def _collect(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    duplicates: Duplicates,
    modes: Sequence[str],
    labels: Sequence[NDArray[Any]],
    source: str,
) -> RawTensor:
    """Return the entries with a value, each once and in ascending order."""
    present = ~np.isnan(values)
    if not present.any():
        raise ValueError(
            f"{source} has no values: all {len(values)} are missing; at least one must be there"
        )
    cells, merged = merge_cells(indices[:, present], values[present], duplicates, modes, labels)
    shape = tuple(map(len, labels))
    return RawTensor(
        torch.from_numpy(merged), torch.from_numpy(cells), shape, tuple(modes), tuple(labels)
    )


def _with_missing(listed: RawTensor, places: NDArray[np.int64], absent: Absent) -> RawTensor:
    """Return a list with NaN at further places, if it would be a zero otherwise.

    Args:
        listed: The entries with a value.
        places: Where rows have none, shape (order, count); some may have a value in another row.
        absent: What absent entries are.
    """
    if absent == "missing" or not places.shape[1]:
        return listed
    assert listed.indices is not None
    both = torch.cat([listed.indices, torch.from_numpy(places)], 1)
    keys, known = cell_keys(both, listed.shape).numpy(), listed.indices.shape[1]
    _, first = np.unique(keys, return_index=True)
    new = first[first >= known]
    nothing = listed.values.new_full((len(new),), torch.nan)
    return replace(
        listed,
        values=torch.cat([listed.values, nothing]),
        indices=torch.cat([listed.indices, both[:, torch.from_numpy(new)]], 1),
    )


def merge_cells(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    duplicates: Duplicates,
    modes: Sequence[str],
    labels: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return indices and values in ascending order, with one value for each entry."""
    keys = cell_keys(torch.from_numpy(indices), tuple(map(len, labels))).numpy()
    _, first, inverse, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    cells = indices[:, first]
    if duplicates == "first" or len(first) == len(values):
        return cells, values[first]
    if duplicates == "error":
        raise _repeated(cells, values, inverse, counts, modes, labels)
    merged: NDArray[np.float64] = np.full(len(first), -np.inf)
    if duplicates == "last":
        merged[inverse] = values
    elif duplicates == "max":
        np.maximum.at(merged, inverse, values)
    else:
        merged = np.bincount(inverse, values).astype(np.float64)
        merged = merged / counts if duplicates == "mean" else merged
    return cells, merged


def _repeated(
    cells: NDArray[np.int64],
    values: NDArray[np.float64],
    inverse: NDArray[np.intp],
    counts: NDArray[np.intp],
    modes: Sequence[str],
    labels: Sequence[NDArray[Any]],
) -> ValueError:
    """Return the error for entries with several values, with examples."""
    repeated = np.flatnonzero(counts > 1)
    examples = []
    for cell in repeated[:3]:
        named = zip(modes, labels, cells[:, cell], strict=True)
        place = ", ".join(f"{mode} {label[index]}" for mode, label, index in named)
        found = ", ".join(f"{value:g}" for value in values[inverse == cell][:5])
        examples.append(f"{place}: {found}")
    return ValueError(
        f"{len(repeated)} entries are given more than once, such as {'; '.join(examples)}. Choose "
        "how to merge them with duplicates='mean', 'sum', 'max', 'first' or 'last', or name a "
        "further mode that tells them apart"
    )
