"""The interface between a solver and the loss in one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import RowGrams, add_grams
from parafair.team import ALONE, Team


class Block(Protocol):
    """The mean squared error, plus a ridge, as a function of one factor (batch, n, rank).

    The function is quadratic and determined by ``M`` and ``G``; no method reads the tensor.
    """

    @property
    def target(self) -> Tensor:
        """``M``, shape (batch, n, rank)."""

    @property
    def entries(self) -> int:
        """``|X|``, the number of observed entries."""

    @property
    def mean_gram(self) -> Tensor:
        """The mean of ``G`` over the rows, shape (batch, rank, rank)."""

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member of the batch, in double precision, shape (batch,)."""

    def take(self, members: Tensor) -> Self:
        """Return the function for some members of the batch."""

    def pool(self, rows: Tensor, weights: Tensor) -> Self:
        """Return the function of rows that several rows have in common, up to a constant.

        Args:
            rows: Positions of the rows that are to be equal, shape (new rows, k).
            weights: Their weights, shape (k,).
        """

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the multiple of a factor with the smallest value, shape (batch,)."""

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row that minimizes a factor's value, shape (batch, 1, rank)."""

    def change_basis(self, basis: Tensor) -> Self:
        """Return the same as a function of ``Z`` with ``A = Z @ basis``."""

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map of one gradient step; step sizes (batch, 1, 1).

        In a batch of one, the map takes and returns plain matrices.
        """

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient of this plus the form, shape (batch,)."""

    def solve(self, right: Tensor) -> Tensor:
        """Return ``G^-1`` times rows of shape (batch, n, rank); zero in flat directions."""

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the exact minimizer of this plus the form."""

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Return the factor after `count` gradient steps of size `step`, shape (batch,)."""

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Minimize this + ``<slope, A> + weight/2 ||A - anchor||^2`` exactly; weights (batch,)."""

    def improve(self, factor: Tensor) -> Tensor:
        """Return the minimizer, damped where it is ill-determined."""

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Minimize over one column at a time at fixed norm; one pass."""


class Squares(NamedTuple):
    """The function ``constant + sum_i (a_i G_i a_i - 2 a_i m_i)`` of the rows of one factor.

    Attributes:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, rank, rank), or one for each row.
        constant: The constant, for all members of a batch or each of them.
    """

    target: Tensor
    gram: Tensor | RowGrams
    constant: float | Tensor

    def plus(self, other: Squares) -> Squares:
        """Return the sum of both, in the precision of this one."""
        return Squares(
            self.target + other.target.to(self.target),
            add_grams(self.gram, other.gram),
            self.constant + other.constant,
        )

    def block(self, *, entries: int, ridge: Tensor | None, team: Team = ALONE) -> Block:
        """Return this over a number of entries, plus a ridge; as `squared_block`."""
        return squared_block(
            self.target,
            self.gram,
            norm_squared=self.constant,
            entries=entries,
            ridge=ridge,
            team=team,
        )


def squared_block(
    target: Tensor,
    gram: Tensor | RowGrams,
    *,
    norm_squared: float | Tensor,
    entries: int,
    ridge: Tensor | None,
    team: Team = ALONE,
) -> Block:
    """Return the squared error for the sums over the observed entries.

    Args:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, rank, rank), or one for each row.
        norm_squared: ``||X||**2`` over the observed entries; or a constant for each member.
        entries: ``|X|``, their number.
        ridge: Added to the diagonal of ``G``, shape (batch, rank); None for no ridge.
        team: All processes that have some of the rows.
    """
    if isinstance(gram, RowGrams):
        grams = gram if ridge is None else gram.plus(ridge)
        return RowwiseBlock(target, grams, norm_squared, entries, team)
    shared = gram if ridge is None else gram + torch.diag_embed(ridge)
    return SharedBlock(target, shared, norm_squared, entries)
