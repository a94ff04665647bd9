"""Entries as a matrix: one row per person, all other modes side by side."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from parafair.data.tensor_data import TensorData


def unfold(data: TensorData, mode: int) -> Tensor:
    """Return all entries, shape (people, product of the other sizes).

    Raises:
        ValueError: If an entry is missing; the message names the first person who lacks one.
    """
    if data.observed < prod(data.shape):
        raise ValueError(_missing(data, mode))
    return data.to_dense().values.movedim(mode, 0).flatten(1)


def _missing(data: TensorData, mode: int) -> str:
    """Return what is missing, for an error."""
    sizes = [size for number, size in enumerate(data.shape) if number != mode]
    lacking = torch.from_numpy(data.observed_per(mode)) < prod(sizes)
    first = int(lacking.nonzero()[0])
    own = data.take(mode, [first])
    there = torch.zeros(own.shape, dtype=torch.bool, device="cpu")
    there[tuple(own.cells.cpu())] = True
    cell = (~there).nonzero()[0].tolist()
    place = ", ".join(
        f"{name} {labels[index]!s}"
        for number, (name, labels, index) in enumerate(
            zip(data.modes, data.labels, cell, strict=True)
        )
        if number != mode
    )
    return (
        f"{data.modes[mode]} {data.labels[mode][first]!s} has no entry at {place} "
        f"({int(lacking.sum())} of {data.shape[mode]} people lack entries), but this needs all "
        "entries of a person; fill in the missing ones, leave these people out, or fit "
        "method='invariant' to data in which entries are missing"
    )


def check_columns(shape: tuple[int, ...], mode: int, columns: int) -> None:
    """Raise unless unfolded entries of this shape have so many columns."""
    if not 0 <= mode < len(shape):
        raise ValueError(f"its mode must be from 0 to {len(shape) - 1}, got {mode!r}")
    expected = prod(size for number, size in enumerate(shape) if number != mode)
    if columns != expected:
        raise ValueError(f"it is for {columns} entries per person, but the model has {expected}")


def check_rank_of(weights: Tensor, rank: int) -> None:
    """Raise unless a matrix of weights gives rows of this rank."""
    if weights.ndim != 2 or weights.shape[1] != rank:
        raise ValueError(
            f"its weights have the shape {tuple(weights.shape)}, but the model has rank {rank}"
        )
