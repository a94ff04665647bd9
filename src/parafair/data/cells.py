"""Lists of entries of a tensor: their order, and what happens to those given more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.errors import unknown_choice

Duplicates: TypeAlias = Literal["error", "mean", "sum", "max", "first", "last"]


def cell_keys(indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return one whole number per entry, in the same order as their indices; shape (count,).

    Args:
        indices: Places of entries, int64, shape (order, count).
        shape: Sizes of the modes; their product may exceed any number type.
    """
    keys, largest = indices[0], shape[0]
    for index, size in zip(indices[1:], shape[1:], strict=True):
        if largest * size >= 2**63:
            distinct, keys = torch.unique(keys, return_inverse=True)
            largest = len(distinct)
        keys, largest = keys * size + index, largest * size
    return keys


def merge_cells(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    duplicates: Duplicates,
    modes: Sequence[str],
    labels: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return entries in order, each once.

    Args:
        indices: Places of entries, shape (order, count).
        values: Their values, shape (count,).
        duplicates: What to do with several values for one entry.
        modes: Names of the modes, for messages.
        labels: Labels of each mode, for messages.
    """
    if duplicates not in get_args(Duplicates):
        raise unknown_choice("duplicates", duplicates, get_args(Duplicates))
    keys = cell_keys(torch.from_numpy(indices), tuple(map(len, labels))).numpy()
    _, first, inverse, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    cells = indices[:, first]
    if len(cells[0]) == len(values):
        return cells, values[first]
    if duplicates == "error":
        raise _repeated(cells, values, inverse, counts, modes, labels)
    if duplicates == "first":
        return cells, values[first]
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
    """Return the error for entries given more than once, with examples."""
    repeated = np.flatnonzero(counts > 1)
    examples = []
    for cell in repeated[:3]:
        named = zip(modes, labels, cells[:, cell], strict=True)
        place = ", ".join(f"{mode} {label[index]}" for mode, label, index in named)
        found = ", ".join(f"{value:g}" for value in values[inverse == cell][:5])
        examples.append(f"{place}: {found}")
    return ValueError(
        f"{len(repeated)} entries are given more than once, such as {'; '.join(examples)}. Say "
        "what to do with them (--duplicates mean on the command line, duplicates='mean' in Python; "
        "or sum, max, first, last), or name a further mode that tells them apart"
    )
