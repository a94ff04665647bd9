"""What a call that fails says: of a full GPU, and to the other processes of its fit.

Those notice at their next sum that a process is gone, and find there why. It cannot send them a
message, because they wait for another one; but their process group has a store of short texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import distributed

from parafair.errors import TeamError
from parafair.tiles import shared_tiles

P = ParamSpec("P")
T = TypeVar("T")

# Bytes of torch's units of memory.
BINARY = {"K": 2**10, "M": 2**20, "G": 2**30}

# What a store, or the machine that has it, may answer after processes have ended.
UNREACHABLE = (RuntimeError, OSError)


def naming_full_gpus(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function run with tiles of its own, and say what it needs if they do not fit."""

    @wraps(function)
    def named(*args: P.args, **kwargs: P.kwargs) -> T:
        with shared_tiles():
            try:
                return function(*args, **kwargs)
            except torch.cuda.OutOfMemoryError as error:
                raise MemoryError(_need_of(str(error))) from error

    return named


def _need_of(text: str) -> str:
    """Return what a call needs whose smallest tiles do not fit, from the words of torch."""
    asked = re.search(r"Tried to allocate ([0-9.]+) ([KMG])iB", text)
    more = float(asked[1]) * BINARY[asked[2]] if asked else 0.0
    # What the call holds is there until its error is handled.
    needed = (torch.cuda.memory_allocated() + more) / 1e9
    here = ""
    if torch.cuda.is_available():
        free, total = (size / 1e9 for size in torch.cuda.mem_get_info())
        here = f" of {total:.2f} GB, of which {free:.2f} GB are free"
    return (
        f"X does not fit on the GPU{here}: this call needs at least {needed:.2f} GB there, even in "
        "small tiles; use device='cpu', dtype='float32' or a lower rank"
    )


def telling_others(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function with the keyword `process_group` tell other processes why it fails."""
    function = naming_full_gpus(function)

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
