"""Models that are trained together.

A model may have a method ``fit_together(models, sets)``, which trains models that differ in their
seeds alone, each on its own rows and targets. Networks do: as one batch they take less time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def trains_together(model: Any) -> bool:
    """Tell whether models like this one are trained together."""
    return hasattr(model, "fit_together")


def fit_all(models: Sequence[Any], sets: Sequence[tuple[Any, Any]]) -> None:
    """Train each model on its own rows and targets; together if they can be.

    Args:
        models: Models that differ in their seeds alone.
        sets: The rows and targets of each.
    """
    if trains_together(models[0]):
        models[0].fit_together(models, sets)
        return
    for model, (rows, targets) in zip(models, sets, strict=True):
        model.fit(rows, targets)
