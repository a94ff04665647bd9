"""Checks of single arguments, the same for all callers: what is wrong is said before any work."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from math import inf, isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parafair.errors import shown, unknown_choice

T = TypeVar("T")


def whole_number(name: str, value: object, *, least: int = 1, most: float = inf) -> int:
    """Return a whole number of Python or NumPy; raise for others.

    Args:
        name: The name of the argument.
        value: What was given.
        least: The smallest number allowed.
        most: The largest number allowed.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:  # type: ignore[call-overload]
        limits = f"of at least {least}" if most == inf else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {limits}, got {shown(value)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def real_number(
    name: str, value: object, *, least: float = -inf, above: float = -inf, most: float = inf
) -> float:
    """Return a finite number of Python or NumPy; raise for others.

    Args:
        name: The name of the argument.
        value: What was given.
        least: The smallest number allowed.
        above: The number must be larger than this.
        most: The largest number allowed.
    """
    number = _as_float(value)
    if not isfinite(number) or not (least <= number <= most and number > above):
        limits = [f"of at least {least:g}"] if least > -inf else []
        limits += [f"above {above:g}"] if above > -inf else []
        limits += [f"of at most {most:g}"] if most < inf else []
        text = f"{name} must be a finite number {' and '.join(limits)}".rstrip()
        raise ValueError(f"{text}, got {shown(value)}")
    return number


def _as_float(value: object) -> float:
    """Return a number as a float; NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return inf


def bytes_of(name: str, value: object) -> int:
    """Return a size of memory in bytes, given as a number or as text such as "8GB".

    >>> bytes_of("memory", "1.5GB")
    1500000000
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)i?B?\s*", str(value), re.IGNORECASE)
    number = None
    if match and not isinstance(value, bool):
        with suppress(ValueError):
            number = float(match[1]) * UNITS[match[2].upper()]
    if not number or not 1 <= number < inf:
        raise ValueError(
            f"{name} must be a size such as '8GB' or a number of bytes, got {shown(value)}"
        )
    return int(number)


UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def size_text(number: float) -> str:
    """Return a number of bytes as text, in units in which it is not zero.

    >>> size_text(1.5e9), size_text(640_000)
    ('1.50 GB', '0.64 MB')
    """
    unit = "GB" if number >= 0.1 * UNITS["G"] else "MB"
    return f"{number / UNITS[unit[0]]:.2f} {unit}"


def flag(name: str, value: object) -> bool:
    """Return a truth value; raise for others, because "no" would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def one_of(name: str, value: object, options: Collection[str]) -> str:
    """Return a word if it is one of the options; raise for others."""
    if not isinstance(value, str) or value not in options:
        raise unknown_choice(name, value, options)
    return value


def instance_of(name: str, value: object, kind: type[T], remedy: str) -> T:
    """Return an object of a class; raise for others.

    Args:
        name: The name of the argument.
        value: What was given.
        kind: The class.
        remedy: How to make such an object.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {shown(value)}; {remedy}")
    return value


def callback(name: str, value: Callable[..., Any] | None) -> None:
    """Raise unless it is None or can be called."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function or None, got {shown(value)}")


def items(name: str, value: Any, what: str) -> list[Any]:
    """Return the items of a list or another iterable; raise for text and for what is no list.

    Args:
        name: The name of the argument.
        value: What was given.
        what: What it must hold, such as "names of columns".
    """
    try:
        plain = not isinstance(value, (str, bytes)) and isinstance(value, Iterable)
        found = list(value) if plain else None
    except Exception:  # some libraries have objects that look like lists
        found = None
    if found is None:
        raise TypeError(f"{name} must be a list of {what}, got {shown(value)}")
    return found


def as_path(name: str, value: object) -> Path:
    """Return a path; raise for what the system cannot take for one."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be a path as text or a pathlib.Path, got {shown(value)}")
    path = Path(value)
    if path.parts[:1] == ("~",):  # a folder of this name is deleted at great risk
        raise ValueError(
            f"{name} must be a path without ~, which only a shell replaces, got "
            f"{shown(str(path))}; write the home folder out"
        )
    try:
        if "\0" in str(path):
            raise ValueError("it has a null character")
        path.exists()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{name} must be a path that can be looked up, got {shown(str(path))} ({why}); "
            "choose another"
        ) from error
    return path


def has_ending(path: Path, endings: tuple[str, ...]) -> bool:
    """Return whether the name of a file ends so, in small or capital letters."""
    return path.name.lower().endswith(endings)


def jobs(name: str, value: object) -> None:
    """Raise unless it is a number of processes as joblib takes it."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and not (whole and 0 < abs(int(value)) < 2**31):  # type: ignore[call-overload]
        raise ValueError(
            f"{name} must be a whole number other than 0, or None, got {shown(value)}; 1 is one "
            "process, -1 is all processors, and 2**31 or more are not possible"
        )


def classes_of(name: str, value: Any) -> tuple[type, ...]:
    """Return classes; raise for what is no list of them."""
    found = items(name, value, "classes")
    for kind in found:
        instance_of(f"each of {name}", kind, type, "pass classes, not objects or names")
    return tuple(found)


def to_numpy(array: Any, name: str) -> NDArray[Any]:
    """Return an array of any type; raise if the rows differ in length, or it is no array."""
    try:
        return np.asarray(array)
    except Exception as error:  # each library has its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{name} must be an array with rows of equal length, got {shown(array)} ({reason}); "
            "convert it first, for example with numpy.asarray(values, dtype=float)"
        ) from error
