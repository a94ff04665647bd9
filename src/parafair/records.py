"""Settings objects as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from math import isfinite
from typing import Any

import numpy as np


def describe(settings: object) -> dict[str, Any]:
    """Return a settings object as its class name and plain values.

    >>> from parafair.solvers import GradientBCD
    >>> describe(GradientBCD())
    {'name': 'GradientBCD', 'step_sizes': [0.5, 1.0], 'inner_steps': 200, 'cap': True}
    """
    described: dict[str, Any] = {"name": type(settings).__name__}
    if is_dataclass(settings) and not isinstance(settings, type):
        described |= {name: plain(getattr(settings, name)) for name in asdict(settings)}
    return described


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers, text, lists, or a described object.

    JSON has no NaN and no infinity; both become None.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    return describe(value) if is_dataclass(value) else str(value)


def rebuild(described: Mapping[str, Any], classes: Mapping[str, type]) -> Any:
    """Return the object that `describe` was called on.

    Args:
        described: What `describe` returned.
        classes: The classes that it may be, or be made of, by name; no other is ever called.

    Raises:
        ValueError: If its class is not among them.
    """
    name = str(described.get("name"))
    if name not in classes:
        raise ValueError(
            f"the record names the class {name!r}, which is not known here; pass your own classes, "
            "for example FairCP.load(folder, classes=[MyPenalty])"
        )
    arguments = {key: _value(value, classes) for key, value in described.items() if key != "name"}
    try:
        return classes[name](**arguments)
    except TypeError as error:
        raise ValueError(f"the record does not describe a {name} ({error})") from error


def _value(value: Any, classes: Mapping[str, type]) -> Any:
    if isinstance(value, Mapping) and "name" in value:
        return rebuild(value, classes)
    return tuple(value) if isinstance(value, list) else value
