"""What blocks with constrained factors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock
from parafair.algebra.quadratic import QuadraticForm

GRADIENT_STEPS = (
    "the factors of this model are constrained and cannot take gradient steps; use solver='block' "
    "or 'lbfgs'"
)


@dataclass(frozen=True, eq=False)
class ConstrainedBlock:
    """A `SharedBlock` or `RowwiseBlock` as a function of constrained factors.

    Attributes:
        free: The function without the constraint.
    """

    free: SharedBlock | RowwiseBlock

    @property
    def target(self) -> Tensor:
        """``M``, shape (batch, n, rank)."""
        return self.free.target

    @property
    def entries(self) -> int:
        """``|X|``, the number of observed entries."""
        return self.free.entries

    @property
    def mean_gram(self) -> Tensor:
        """The mean of ``G`` over the rows, shape (batch, rank, rank)."""
        return self.free.mean_gram

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member of the batch, in double precision, shape (batch,)."""
        return self.free.value(factor)

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient of this plus the form, shape (batch,)."""
        return self.free.curvature(form)

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the multiple of a factor with the smallest value, shape (batch,)."""
        return self.free.best_multiple(factor)

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row of a factor: rows with another mean may be none that are allowed."""
        return factor.mean(-2, keepdim=True)

    def solve(self, right: Tensor) -> Tensor:
        """Return ``G^-1`` times rows of shape (batch, n, rank), without the constraint."""
        return self.free.solve(right)

    def change_basis(self, basis: Tensor) -> Self:
        """Raise: the constraint depends on the basis."""
        raise ValueError("a constrained block has no other basis")

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Raise: gradient steps leave the constraint."""
        raise ValueError(GRADIENT_STEPS)

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Raise: gradient steps leave the constraint."""
        raise ValueError(GRADIENT_STEPS)
