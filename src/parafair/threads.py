"""One thread for results that must not depend on the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


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
