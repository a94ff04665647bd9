"""Tiles of a GPU: what is computed at once, and less of it where the GPU was full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

# How often tiles are halved before a call fails.
MOST_HALVINGS = 8


@dataclass
class _Tiles:
    """How often the tiles of a call were halved."""

    halvings: int = 0


_TILES: ContextVar[_Tiles | None] = ContextVar("tiles", default=None)


def halvings() -> int:
    """Return how often the tiles of the present call were halved."""
    tiles = _TILES.get()
    return 0 if tiles is None else tiles.halvings


@contextmanager
def shared_tiles() -> Iterator[None]:
    """Let everything in a block have tiles of the same size; a block within belongs to it."""
    token = _TILES.set(_TILES.get() or _Tiles())
    try:
        yield
    finally:
        _TILES.reset(token)


def in_smaller_tiles(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function run again with tiles of half the size while a GPU is full.

    It must change nothing that it is given. Later functions of the block begin with these tiles.
    """

    @wraps(function)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        with shared_tiles():
            tiles = _TILES.get()
            assert tiles is not None
            while True:
                try:
                    return function(*args, **kwargs)
                except torch.cuda.OutOfMemoryError:
                    if tiles.halvings == MOST_HALVINGS:
                        raise
                    tiles.halvings += 1
                # Now nothing refers to what the failed attempt has made.
                torch.cuda.empty_cache()

    return again
