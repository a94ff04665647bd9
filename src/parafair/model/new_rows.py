"""The loss of new people as a function of their rows, with all other factors fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import Block, NonNegativeBlock, Squares
from parafair.algebra.quadratic import QuadraticForm
from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData
from parafair.losses import Loss, is_squared, needs_non_negative
from parafair.model.side import NewSide
from parafair.solvers.deviance import Deviance
from parafair.solvers.linked_table import FixedTable
from parafair.solvers.ridge import ridge_diagonal
from parafair.solvers.rows import minimize_rows
from parafair.solvers.tangent import tangent_squares


@dataclass(frozen=True, eq=False)
class NewRows:
    """The loss and the ridge of new people.

    Attributes:
        data: Their entries; with the squared error, offsets are subtracted.
        factors: The factors of the model, one (size, rank) per mode; that of the people is not
            used.
        mode: The mode of the people.
        ridge: The ridge of the model.
        loss: Its loss.
        offsets: Its offsets, part of the model if the loss has a link; None without any.
        non_negative: Whether rows are non-negative.
        side: Side information of these people; None without any.
    """

    data: TensorData
    factors: Factors
    mode: int
    ridge: float
    loss: Loss
    offsets: Offsets | None
    non_negative: bool = False
    side: NewSide | None = None

    def best(self) -> Tensor:
        """Return the rows that fit the entries best, shape (people, rank)."""
        others, ridge = self._others()
        if not self._exact:
            return minimize_rows(
                self._deviance,
                others,
                self.mode,
                ridge=ridge,
                non_negative=self.non_negative,
                side=self._side,
            )[0]
        block = self._block(others, ridge)
        return block.minimizer(QuadraticForm.zero(block.target))[0]

    def blocks(self) -> Callable[[Tensor], Block]:
        """Return a function from rows, shape (1, people, rank), to the loss near them."""
        others, ridge = self._others()
        if self._exact:
            block = self._block(others, ridge)
            return lambda _: block

        def near(rows: Tensor) -> Block:
            others[self.mode] = rows
            return self._block(others, ridge)

        return near

    def ratio(self, rows: Tensor) -> float:
        """Return the deviance of rows over that of the best constant."""
        others, _ = self._others()
        others[self.mode] = rows[None]
        return float(self._deviance.value(others)) / self._deviance.null

    @property
    def reference(self) -> Tensor:
        """Numbers with the units of the loss, from which a penalty takes its own."""
        if is_squared(self.loss) and not self.data.zeros_count:
            return self.data.entries
        unit = self._deviance.null / self.data.observed
        return self.data.values.new_full((1,), unit**0.5)

    @cached_property
    def _deviance(self) -> Deviance:
        return Deviance(self.loss, self.data, self.offsets)

    def _others(self) -> tuple[list[Tensor], Tensor | None]:
        """Return the factors with a first guess for new people, and the ridge of their rows."""
        others = [factor.unsqueeze(0) for factor in self.factors]
        ridge = ridge_diagonal(others, self.mode, self.mode, self.ridge)
        people, rank = self.data.shape[self.mode], others[0].shape[-1]
        others[self.mode] = others[0].new_zeros(1, people, rank)
        if needs_non_negative(self.loss):  # whose logarithms are of the model
            mean = self.factors[self.mode].clamp_min(0.0).mean(0)
            others[self.mode] = others[self.mode] + mean
        return others, ridge

    @cached_property
    def _side(self) -> FixedTable | None:
        return None if self.side is None else self.side.fixed()

    @property
    def _exact(self) -> bool:
        """Whether all of the loss is a squared error."""
        return is_squared(self.loss) and (self._side is None or self._side.is_squared)

    def _block(self, factors: Factors, ridge: Tensor | None) -> Block:
        """Return the loss and the ridge near the rows that `factors` have."""
        if is_squared(self.loss):
            sums = self.data.observations.sums(factors)
            norm = float(torch.linalg.vector_norm(self.data.entries, dtype=torch.float64))
            squares = Squares(sums.target(self.mode), sums.gram(self.mode), norm**2)
        else:
            squares = tangent_squares(self._deviance, factors, self.mode)
        if self._side is not None:
            squares = squares.plus(self._side.near(factors[self.mode]))
        free = squares.block(entries=self.data.observed, ridge=ridge)
        return NonNegativeBlock.of(free) if self.non_negative else free
