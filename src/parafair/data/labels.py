"""Labels of indices: which values are allowed, and their positions in a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parafair.arguments import items, to_numpy
from parafair.errors import nearest, shown

NUMBERS = (bool, int, float, Decimal, np.number)

# Number of labels to search for one similar to an unknown label.
COMPARED = 1000


def as_labels(values: Any, what: str) -> NDArray[Any]:
    """Return labels as an array of one type.

    Whole numbers become integers and dates become text in ISO form. Both keep their order.
    """
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "biU":
            return values
        dates = values.dtype.kind == "M"
        values = (values.astype("datetime64[us]") if dates else values).tolist()
    plain = items(what, values, "labels")
    plain = [value.item() if isinstance(value, np.generic) else value for value in plain]
    plain = [value.isoformat() if hasattr(value, "isoformat") else value for value in plain]
    if any(map(is_missing, plain)):
        raise ValueError(f"{what} has a missing label; every index needs one")
    kinds = {type(value).__name__ for value in plain}
    if len(kinds) > 1 and not kinds <= {"int", "float", "bool"}:
        raise ValueError(
            f"{what} mixes labels of different types ({', '.join(sorted(kinds))}); make them all "
            "text or all numbers"
        )
    if kinds & {"int", "float"}:
        return _numeric_labels(plain, what)
    if not plain:
        raise ValueError(f"{what} must hold labels such as text or numbers, got none")
    if not all(isinstance(value, (str, bool)) for value in plain):
        raise ValueError(
            f"{what} must hold labels such as text or numbers, got {preview(map(shown, plain))}"
        )
    return np.array(plain)


def _numeric_labels(values: Sequence[float], what: str) -> NDArray[Any]:
    """Return numbers as int64 if all are whole, else as float64; raise if one would change."""
    outside = [value for value in values if not -(2**63) <= value < 2**63]
    if outside:
        raise ValueError(
            f"{what} holds the label {outside[0]}, outside the range of 64-bit integers; make "
            "all labels text"
        )
    if not all(value % 1 == 0 for value in values):
        rounded = [value for value in values if float(value) != value]
        if rounded:
            raise ValueError(
                f"{what} holds the label {rounded[0]} beside fractions, which would round it; make "
                "all labels text"
            )
        return np.array(values, np.float64)
    return np.array([int(value) for value in values], np.int64)


def find_labels(wanted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each wanted label in `labels`, or -1."""
    if (wanted.dtype.kind == "U") != (labels.dtype.kind == "U"):  # 7 and "7" mean the same
        wanted, labels = wanted.astype(str), labels.astype(str)
    elif (wanted.dtype.kind == "f") != (labels.dtype.kind == "f"):
        # Python compares integers with floats exactly; NumPy rounds the integers first.
        wanted, labels = wanted.astype(object), labels.astype(object)
    order = np.argsort(labels, kind="stable")
    places = order[np.searchsorted(labels, wanted, sorter=order).clip(max=len(labels) - 1)]
    return np.where(labels[places] == wanted, places, -1)


def first_repeated(labels: NDArray[Any]) -> Any:
    """Return a label that occurs more than once, or None."""
    if (labels[1:] > labels[:-1]).all():  # the usual case, without a copy
        return None
    distinct, counts = np.unique(labels, return_counts=True)
    return None if len(distinct) == len(labels) else distinct[counts > 1][0]


def preview(labels: Iterable[Any], most: int = 3) -> str:
    """Return a few labels for a message."""
    shown = [str(label) for label in labels]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither true nor false
        return True
    except (ValueError, RuntimeError):  # an array of several values
        return False


def as_float(value: Any) -> float:
    """Return a number as a float; infinite if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return inf


def locate(
    wanted: NDArray[Any], labels: NDArray[Any], mode: str, *, remedy: str
) -> NDArray[np.intp]:
    """Return the position of each wanted label along a mode; raise for unknown labels.

    Args:
        wanted: Labels to find.
        labels: The labels of the mode.
        mode: The name of the mode.
        remedy: What to do about unknown labels, for the message.
    """
    places = find_labels(wanted, labels)
    unknown = np.unique(wanted[places < 0])
    if len(unknown):
        # A similar number is another person or item, not a misspelling.
        text = labels.dtype.kind == "U"
        raise ValueError(
            f"mode {mode!r} has no label {preview(unknown)} ({len(unknown)} unknown in all); "
            f"{remedy}{nearest(unknown[0], labels[:COMPARED].tolist()) if text else ''}"
        )
    return places


def check_positions(name: str, positions: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return different positions in a list of this size, from whole numbers or a mask.

    Args:
        name: The name of the argument.
        positions: What was given.
        size: The length of the list.
    """
    places = given = to_numpy(positions, name)
    if given.dtype == bool and given.shape == (size,):
        places = np.flatnonzero(given)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
        raise ValueError(
            f"{name} must be a list of whole numbers, or a boolean mask of length {size} with at "
            f"least one True; got {shown(positions)}"
        )
    if places.min() < 0 or places.max() >= size:
        raise ValueError(
            f"{name} must be from 0 to {size - 1}, got {places.min()} to {places.max()}"
        )
    if first_repeated(places) is not None:
        raise ValueError(
            f"{name} has {first_repeated(places)} more than once; give each position once"
        )
    return places.astype(np.int64)
