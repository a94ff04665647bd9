"""Tensors as matrices with people in rows, as Tucker models see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.algebra.tucker_tensor import Multilinear, TuckerTensor
from parafair.data.modes import default_modes, is_labeled
from parafair.data.tensor_data import TensorData
from parafair.model.axes import Axes
from parafair.solvers.parameters import mode_of_basis


@dataclass(frozen=True, eq=False)
class Unfolding(Axes):
    """The modes of a tensor that is unfolded: people in rows, cells of all others in columns.

    Attributes:
        mode: The mode of the people.
        modes: Names of the modes.
        labels: Labels of every mode.
        ranks: The Tucker rank of every mode.
    """

    ranks: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """Sizes of all modes but that of the people."""
        return self._without(self.shape)

    @property
    def structure(self) -> Multilinear:
        """The set of the second factor of the unfolded data."""
        return Multilinear(self.others, self._without(self.ranks))

    @property
    def rank(self) -> int:
        """Number of columns of the rows of people."""
        return self.ranks[self.mode]

    def number_of(self, mode: int) -> int:
        """Return the number that another mode than that of the people has in the problem."""
        return mode_of_basis(mode - (mode > self.mode))

    def check_noise(self, noise: Mapping[int, Tensor]) -> None:
        """Raise unless the noise of all modes but that of the people has the rank of a basis."""
        ranks = {mode_of_basis(number): r for number, r in enumerate(self.structure.ranks)}
        for mode, matrix in noise.items():
            if mode and ranks.get(mode) != len(matrix):
                raise ValueError(
                    f"its noise of mode {mode} has the shape {tuple(matrix.shape)}, but the bases "
                    f"have the ranks {ranks}"
                )

    def unfold(self, data: TensorData) -> TensorData:
        """Return data of any people as a matrix."""
        self.check_new(data.shape)
        shape = (data.shape[self.mode], prod(self.others))
        modes = default_modes(2)
        if is_labeled(data.modes, data.labels):
            modes = (data.modes[self.mode], " x ".join(self._without(data.modes)))
        labels = (data.labels[self.mode], np.arange(shape[1]))
        if data.indices is None:
            values = data.values.movedim(self.mode, 0).flatten(1)
            return TensorData(values, None, shape, modes, labels)
        cells = self.unfold_cells(data.indices)
        return TensorData(data.values, cells, shape, modes, labels, data.absent)

    def unfold_cells(self, cells: Tensor) -> Tensor:
        """Return positions in the matrix, shape (2, count), from those in the tensor.

        A column is unknown, -1, if one of its labels is.
        """
        column = torch.zeros_like(cells[0])
        known = torch.ones_like(column, dtype=torch.bool)
        for mode, size in enumerate(self.shape):
            if mode != self.mode:
                column = column * size + cells[mode]
                known &= cells[mode] >= 0
        return torch.stack([cells[self.mode], column.where(known, column.new_tensor(-1))])

    def fold(self, matrix: Tensor) -> Tensor:
        """Return a matrix of any people as a tensor."""
        folded: Tensor = matrix.unflatten(1, self.others).movedim(0, self.mode)
        return folded

    def tucker(self, cp: CPTensor) -> TuckerTensor:
        """Return a decomposition of the matrix as one of the tensor.

        All factors but that of the people have orthonormal columns.
        """
        rows, factor = cp.factors
        bases, core = self.structure.split(factor[None])
        factors = [basis[0] for basis in bases]
        factors.insert(self.mode, rows)
        wide = core[0].unflatten(0, self.structure.ranks).movedim(-1, self.mode)
        return TuckerTensor(wide, tuple(factors))

    def to_record(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "mode": self.mode,
            "modes": list(self.modes),
            "sizes": list(self.shape),
            "labels": [own.tolist() for own in self.labels] if self.labeled else None,
            "ranks": list(self.ranks),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Unfolding:
        """Return an unfolding from the result of `to_record`."""
        labels = record["labels"] or [range(int(size)) for size in record["sizes"]]
        return cls(
            mode=int(record["mode"]),
            modes=tuple(map(str, record["modes"])),
            labels=tuple(np.asarray(own) for own in labels),
            ranks=tuple(map(int, record["ranks"])),
        )

    def check(self, sizes: tuple[int, ...]) -> None:
        """Raise unless the matrix has these sizes."""
        agree = len(self.modes) == len(self.shape) == len(self.ranks) and self.mode in range(
            len(self.shape)
        )
        agree = agree and all(1 <= r <= n for r, n in zip(self.ranks, self.shape, strict=True))
        if not agree or sizes != (self.shape[self.mode], prod(self.others)):
            raise ValueError(f"it has the sizes {sizes}, but unfolds the shape {self.shape}")

    def _without(self, each: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what belongs to all modes but that of the people."""
        return (*each[: self.mode], *each[self.mode + 1 :])
