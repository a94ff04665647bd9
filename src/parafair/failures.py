"""What a process that fails tells the other processes of its fit.

They notice at their next sum that it is gone, and find there why. It cannot send them a message,
because they wait for another one; but their process group has a store of short texts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from torch import distributed

from parafair.errors import TeamError

P = ParamSpec("P")
T = TypeVar("T")

# What a store, or the machine that has it, may answer after processes have ended.
UNREACHABLE = (RuntimeError, OSError)


def telling_others(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function with the keyword `process_group` tell other processes why it fails."""

    @wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        group: Any = kwargs.get("process_group")
        store = _store_of(group)
        if store is None:
            return function(*args, **kwargs)
        with suppress(*UNREACHABLE):
            store.add(_calls(group), 1)
        try:
            return function(*args, **kwargs)
        except TeamError:  # another process failed, or all of them know
            raise
        except Exception as error:
            text = f"process {distributed.get_rank(group)}: {error}"
            with suppress(*UNREACHABLE):
                store.compare_set(_reason(store, group), "", text)
            raise

    return told


def reason_of(group: Any) -> str:
    """Return which process failed and why, if it could say so; empty otherwise.

    Args:
        group: The process group.
    """
    store = _store_of(group)
    if store is None:
        return ""
    with suppress(*UNREACHABLE):
        key = _reason(store, group)
        if store.check([key]):
            found: bytes = store.get(key)
            return found.decode()
    return ""


def _calls(group: Any) -> str:
    """Return where the number of fits of this process is: all processes have as many."""
    return f"parafair fits of {distributed.get_rank(group)}"


def _reason(store: Any, group: Any) -> str:
    """Return where the reason is why the present fit failed."""
    return f"parafair failure of fit {store.add(_calls(group), 0)}"


def _store_of(group: Any) -> Any:
    """Return the store of a process group; None if there is none, or torch is too old for it."""
    made = distributed.is_available() and distributed.is_initialized()
    if not made or not isinstance(group, distributed.ProcessGroup):
        return None
    with suppress(*UNREACHABLE):
        return getattr(group, "get_group_store", lambda: None)()
    return None
