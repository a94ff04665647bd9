"""A table of the same people: its squared error at the factor that fits it best.

A table ``Y`` (people x columns) shares the people's factor ``A`` with a tensor, ``Y ~ A D^T``. The
best ``D`` is a least-squares problem of its own, so it is no variable of the fit: the error is a
function of ``A`` alone,

    min over D of ||Y - A D^T||^2 + s sum_r ||A_r||^2 ||D_r||^2        over the observed entries,

whose gradient is that of the sum at the best ``D`` (variable projection: Golub and Pereyra, 1973).
With ``D`` fixed, the sum is quadratic in ``A``, touches the error and lies above it. The error does
not depend on the scale of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parafair.algebra.least_squares import squared_block
from parafair.algebra.observed import Observations
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import RowGrams

# The share ``s``. Without it, a table could be fitted by huge multiples of columns that cancel.
SHRINKAGE = 1e-6


@dataclass(frozen=True, eq=False)
class Table:
    """A table of people, whatever its units; sums over it are in double precision.

    Attributes:
        observations: Its observed entries, people in rows; in double precision.
    """

    observations: Observations

    @cached_property
    def norm_squared(self) -> float:
        """``||Y||**2`` over the observed entries."""
        return float(torch.linalg.vector_norm(self.observations.values)) ** 2

    def factor(self, rows: Tensor) -> Tensor:
        """Return the best ``D`` for rows of people, shape (batch, columns, rank).

        Args:
            rows: ``A``, shape (batch, people, rank).
        """
        rows = rows.double()
        length = torch.linalg.vector_norm(rows, dim=-2, keepdim=True)
        length = torch.where(length > 0, length, torch.ones_like(length))
        unit = rows / length
        columns = self.observations.shape[1]
        none = unit.new_zeros(len(unit), columns, unit.shape[-1])
        sums = self.observations.sums([unit, none])
        shrinkage = SHRINKAGE * unit.square().sum(-2)
        block = squared_block(
            sums.target(1), sums.gram(1), norm_squared=0.0, entries=1, ridge=shrinkage
        )
        return block.minimizer(QuadraticForm.zero(none)) / length

    def sums(self, rows: Tensor, factor: Tensor) -> tuple[Tensor, Tensor | RowGrams]:
        """Return ``M`` and ``G`` of the rows for a given ``D``, in double precision.

        Args:
            rows: Shape (batch, people, rank); only the shape is used.
            factor: ``D``, shape (batch, columns, rank).
        """
        sums = self.observations.sums([rows.double(), factor])
        gram, shrinkage = sums.gram(0), SHRINKAGE * factor.square().sum(-2)
        if isinstance(gram, RowGrams):
            return sums.target(0), gram.plus(shrinkage)
        return sums.target(0), gram + torch.diag_embed(shrinkage)

    def value_and_slope(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error in double precision, shape (batch,), and half its gradient."""
        exact = rows.double()
        target, gram = self.sums(exact, self.factor(exact))
        products = gram.products(exact) if isinstance(gram, RowGrams) else exact @ gram
        error = self.norm_squared + ((products - 2 * target) * exact).sum((-2, -1))
        return error.clamp_min(0), (products - target).to(rows)

    def value(self, rows: Tensor) -> Tensor:
        """Return the error in double precision, shape (batch,)."""
        return self.value_and_slope(rows)[0]
