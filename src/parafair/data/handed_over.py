"""Data that a caller gives away."""

from __future__ import annotations

from parafair.data.tensor_data import TensorData


class HandedOver:
    """Data in memory that its first reader takes and may drop; nobody else refers to it.

    A fit by several processes takes the entries of its own people and drops the others.

    Args:
        data: The data of all people.
    """

    def __init__(self, data: TensorData) -> None:
        self._data: list[TensorData] = [data]

    def take(self) -> TensorData:
        """Return the data, once."""
        if not self._data:
            raise ValueError("X was handed over to an earlier fit; pass the data itself")
        return self._data.pop()
