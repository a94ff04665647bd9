"""What data in memory and streamed data share: names and labels of the modes, and their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.data.arrays import check_finite, pieces
from parafair.data.labels import as_labels, locate
from parafair.data.modes import number_of_mode

if TYPE_CHECKING:
    from torch import Tensor


class Shaped:
    """A tensor with names and labels for its modes; see `parafair.TensorData`."""

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """Sizes of the modes."""

        @property
        def modes(self) -> tuple[str, ...]:
            """Names of the modes."""

        @property
        def labels(self) -> tuple[NDArray[Any], ...]:
            """Labels of the modes."""

        @property
        def values(self) -> Tensor:
            """The entries."""

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def is_streamed(self) -> bool:
        """Whether entries are read from files in every pass."""
        return False

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the entries."""
        return self.values.dtype

    @property
    def norm(self) -> float:
        """The root of the sum of squares of the observed entries."""
        return check_finite(self.values, "X", missing=True)

    def _count_nan(self) -> int:
        """Return how many of the values are NaN."""
        return sum(int(piece.isnan().sum()) for piece in pieces(self.values))

    def find_mode(self, mode: int | str) -> int:
        """Return the number of a mode, given by number or name."""
        return number_of_mode("mode", mode, self.modes)

    def locate(self, mode: int | str, labels: Any) -> NDArray[np.intp]:
        """Return the positions of labels along a mode; labels it does not have are an error."""
        number = self.find_mode(mode)
        wanted = as_labels(labels, "labels")
        remedy = f"choose from labels[{number}]"
        return locate(wanted, self.labels[number], self.modes[number], remedy=remedy)
