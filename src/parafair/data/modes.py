"""Names of modes and labels of their indices: completed, checked, and whether there are any."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.data.arrays import check_count
from parafair.data.labels import as_labels, first_repeated
from parafair.errors import unknown_choice


def default_modes(order: int) -> tuple[str, ...]:
    """Return the names of modes without names of their own."""
    return tuple(f"mode_{mode}" for mode in range(order))


def is_labeled(modes: Sequence[str], labels: Sequence[NDArray[Any]]) -> bool:
    """Tell whether modes have names or labels of their own, not positions only."""
    return tuple(modes) != default_modes(len(modes)) or has_own_labels(labels)


def has_own_labels(labels: Sequence[NDArray[Any]]) -> bool:
    """Tell whether a label of a mode is not the position of its index."""
    return any(not np.array_equal(own, np.arange(len(own))) for own in labels)


def complete_modes(modes: Sequence[str | None], order: int) -> tuple[str, ...]:
    """Return the names of all modes, or raise."""
    given = tuple(modes) or (None,) * order
    names = tuple(f"mode_{i}" if name is None else str(name) for i, name in enumerate(given))
    if len(names) != order or len(set(names)) < order:
        raise ValueError(f"modes must be {order} different names, got {list(names)}")
    return names


def complete_labels(
    labels: Sequence[Any], shape: tuple[int, ...], modes: Sequence[str]
) -> tuple[NDArray[Any], ...]:
    """Return the labels of all modes, or raise."""
    labels = tuple(labels) or (None,) * len(shape)
    check_count("labels", labels, len(shape))
    found = []
    for number, (given, size, mode) in enumerate(zip(labels, shape, modes, strict=True)):
        own = np.arange(size) if given is None else as_labels(given, f"labels of mode {mode!r}")
        if len(own) != size:
            raise ValueError(
                f"labels[{number}] must have {size} labels, one per index of mode {mode!r}, got "
                f"{len(own)}; pass the labels of this data, or None to number them"
            )
        twice = first_repeated(own)
        if twice is not None:
            raise ValueError(
                f"mode {mode!r} has the label {twice} more than once; labels must differ"
            )
        found.append(own)
    return tuple(found)


def number_of_mode(argument: str, mode: int | str, modes: Sequence[str]) -> int:
    """Return the number of a mode, given by number or name.

    Args:
        argument: The name of the argument that it was given as, for the message of an error.
        mode: The mode.
        modes: The names of all modes.
    """
    if isinstance(mode, str):
        if mode not in modes:
            raise unknown_choice(argument, mode, modes)
        return modes.index(mode)
    whole = isinstance(mode, Integral) and not isinstance(mode, bool)
    if not whole or not 0 <= mode < len(modes):
        raise ValueError(
            f"{argument} must be between 0 and {len(modes) - 1} or one of {', '.join(modes)}, got "
            f"{mode!r}"
        )
    return int(mode)
