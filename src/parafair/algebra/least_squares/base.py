"""What a solver may ask of the loss in one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

import torch
from torch import Tensor

from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock
from parafair.algebra.quadratic import QuadraticForm


class Block(Protocol):
    """The mean squared error, plus a ridge, as a function of one factor (batch, n, rank).

    The function is quadratic and known from ``M`` and ``G``; nothing here touches the tensor.
    """

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member of the batch, in double precision, shape (batch,)."""

    def take(self, members: Tensor) -> Self:
        """Return the function of some members of the batch."""

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the number by which to multiply a factor for the least value, shape (batch,)."""

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row that makes a factor's value least, shape (batch, 1, rank)."""

    def change_basis(self, basis: Tensor) -> Self:
        """Return the function of ``Z`` with ``A = Z @ basis``."""

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map of a factor to where a gradient step leads; steps (batch, 1, 1).

        In a batch of one the map takes and gives plain matrices.
        """

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient, with the form added, shape (batch,)."""

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the factor that minimizes this plus the form exactly."""

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Return the factor after gradient steps of size `step`, shape (batch,)."""

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Minimize this + ``<slope, A> + weight/2 ||A - anchor||^2`` exactly; weights (batch,)."""

    def improve(self, factor: Tensor) -> Tensor:
        """Return the minimizer, held back a little where it is ill-determined."""

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Minimize over one column after the other, each keeping its norm; one pass."""


def squared_block(
    target: Tensor, gram: Tensor, *, norm_squared: float, entries: int, ridge: Tensor | None
) -> Block:
    """Return the squared error for the sums over the observed entries.

    Args:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, rank, rank), or (batch, n, rank, rank) for each row.
        norm_squared: ``||X||**2`` over the observed entries.
        entries: ``|X|``, their number.
        ridge: Added to the diagonal of ``G``, shape (batch, rank); None for nothing.
    """
    if ridge is not None:
        added = torch.diag_embed(ridge)
        gram = gram + (added if gram.ndim == target.ndim else added.unsqueeze(-3))
    kind = SharedBlock if gram.ndim == target.ndim else RowwiseBlock
    return kind(target, gram, norm_squared, entries)


# To add a loss, add the function that makes its block here under the name that users give.
LOSSES: dict[str, Callable[..., Block]] = {"squared": squared_block}
