"""Settings objects as plain values, and back: what a record needs to repeat a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from math import isfinite
from types import ModuleType
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
    """Return a value that JSON can hold: a number, text, a list, or a described object.

    JSON has no NaN and no infinity; both become None.

    >>> plain({"residual": float("nan"), "shape": (3, 2)})
    {'residual': None, 'shape': [3, 2]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, (int, str, type(None))):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    return describe(value) if is_dataclass(value) else repr(value)


def rebuild(described: Mapping[str, Any], modules: Sequence[ModuleType]) -> Any:
    """Return the object that `describe` was called on.

    Args:
        described: What `describe` returned.
        modules: Where to look for its class.

    Raises:
        ValueError: If none of the modules has it: a class of the user's own.
    """
    name = described["name"]
    kind = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
    if kind is None:
        raise ValueError(f"{name} is not a class of parafair, so it cannot be made from a record")
    arguments = {key: _value(value, modules) for key, value in described.items() if key != "name"}
    return kind(**arguments)


def _value(value: Any, modules: Sequence[ModuleType]) -> Any:
    if isinstance(value, Mapping) and "name" in value:
        return rebuild(value, modules)
    return tuple(value) if isinstance(value, list) else value
