"""Numbers of threads: one, for results that must not depend on it, and several side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(
    function: Callable[[Item], Found], items: Sequence[Item], device: torch.device
) -> list[Found]:
    """Return ``[function(item) for item in items]``, several at once on a processor.

    Each item has one thread. For work that fits into the cache this is faster than one item after
    the other with all threads, and the results do not depend on the number of threads.
    """
    threads = min(len(items), torch.get_num_threads()) if device.type == "cpu" else 1
    if threads < 2:
        return [function(item) for item in items]

    def alone(item: Item) -> Found:
        with one_thread():
            return function(item)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(alone, items))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that results do not depend on the number of threads.

    The numbers of threads of this process are shared: those of BLAS by all of its threads, those of
    torch and OpenMP by the threads that start later. So the first thread that enters notes them,
    every thread that leaves gets its own back, and the last one restores those of BLAS.
    """
    if getattr(_HERE, "inside", False):
        yield
        return
    _HERE.inside = True
    _NUMBERS.enter()
    try:
        yield
    finally:
        _NUMBERS.leave()
        _HERE.inside = False


class _Numbers:
    """The numbers of threads before the first thread entered."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entered = 0
        self.torch = 1
        self.limits: dict[str, Any] = {}

    def enter(self) -> None:
        with self.lock:
            if not self.entered:
                self.torch = torch.get_num_threads()
                self.limits = {api: _libraries(api).limit(limits=1) for api in ("blas", "openmp")}
            else:
                _libraries("openmp").limit(limits=1)
            self.entered += 1
            torch.set_num_threads(1)

    def leave(self) -> None:
        with self.lock:
            self.entered -= 1
            torch.set_num_threads(self.torch)
            self.limits["openmp"].restore_original_limits()
            if not self.entered:
                self.limits["blas"].restore_original_limits()


@cache
def _libraries(api: str) -> ThreadpoolController:
    """Return the thread pools of this process; finding them is slow."""
    return ThreadpoolController().select(user_api=api)


_HERE, _NUMBERS = threading.local(), _Numbers()
