"""What a data set holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """A tensor and the sensitive features of the people along one of its modes.

    Attributes:
        name: Short name.
        about: What it is and where it comes from, in a sentence or two.
        tensor: The data.
        sensitive: One entry or row per index of `mode`.
        mode: The sensitive mode.
    """

    name: str
    about: str
    tensor: NDArray[Any]
    sensitive: NDArray[Any]
    mode: int = 0
