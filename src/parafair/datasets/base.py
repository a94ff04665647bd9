"""What a data set holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from parafair.datasets.files import Source


@dataclass(frozen=True, eq=False)
class Dataset:
    """A tensor and the sensitive features of the people along one of its modes.

    Attributes:
        name: Short name.
        about: What it is and where it comes from, in a sentence or two.
        tensor: The data.
        sensitive: One entry or row per index of `mode`.
        mode: The sensitive mode.
        modes: What each mode is; by default mode_0, mode_1, ...
        labels: What each index of each mode is; by default 0, 1, ...
    """

    name: str
    about: str
    tensor: NDArray[Any]
    sensitive: NDArray[Any]
    mode: int = 0
    modes: tuple[str, ...] = ()
    labels: tuple[tuple[Any, ...], ...] = ()

    def __post_init__(self) -> None:
        shape = self.tensor.shape
        if not self.modes:
            object.__setattr__(self, "modes", tuple(f"mode_{mode}" for mode in range(len(shape))))
        if not self.labels:
            object.__setattr__(self, "labels", tuple(tuple(range(size)) for size in shape))


@dataclass(frozen=True)
class Entry:
    """A data set that can be had by name.

    Attributes:
        load: The function that returns it; works without arguments if its files can be had.
        about: What it is, known without loading it.
        source: Its files; None for generated data.
    """

    load: Callable[..., Dataset]
    about: str
    source: Source | None = None
