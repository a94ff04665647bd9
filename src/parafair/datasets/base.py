"""What a data set holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parafair.data.tensor_data import TensorData
from parafair.datasets.files import Source

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Dataset:
    """A tensor and the sensitive features of the people along one of its modes.

    Attributes:
        name: Short name.
        about: What it is and where it comes from, in a sentence or two.
        tensor: The data: an array, or `TensorData` if entries are missing.
        sensitive: One entry or row per index of `mode`: an array or a data frame.
        mode: The sensitive mode.
        modes: What each mode is; by default those of `tensor`, or mode_0, mode_1, ...
        labels: What each index of each mode is; by default those of `tensor`, or 0, 1, ...
    """

    name: str
    about: str
    tensor: NDArray[Any] | TensorData
    sensitive: NDArray[Any] | pandas.DataFrame
    mode: int = 0
    modes: tuple[str, ...] = ()
    labels: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        own = self.tensor if isinstance(self.tensor, TensorData) else None
        shape = self.tensor.shape
        names = own.modes if own else tuple(f"mode_{mode}" for mode in range(len(shape)))
        labels = own.labels if own else tuple(np.arange(size) for size in shape)
        object.__setattr__(self, "modes", self.modes or names)
        object.__setattr__(self, "labels", self.labels or labels)


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
