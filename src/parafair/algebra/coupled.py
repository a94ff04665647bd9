"""A table of the same people: its error at the factor that fits it best.

A table ``Y`` (people x columns) shares the people's factor ``A`` with a tensor, ``Y ~ A D^T``. The
best ``D`` is a least-squares problem of its own, so it is no variable of the fit: the error is a
function of ``A`` alone,

    min over D of ||Y - A D^T||^2 + s sum_r ||A_r||^2 ||D_r||^2        over the observed entries,

whose gradient is that of the sum at the best ``D`` (variable projection: Golub and Pereyra, 1973).
With ``D`` fixed, the sum is quadratic in ``A``, touches the error and lies above it. The error does
not depend on the scale of a column. Other losses take the place of the squared error by their
deviance; see `parafair.solvers.linked_table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import gram
from parafair.algebra.least_squares import Squares, squared_block
from parafair.algebra.observed import Observations
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import RowGrams

# The share ``s``. Without it, a table could be fitted by huge multiples of columns that cancel.
SHRINKAGE = 1e-6


class Table(Protocol):
    """A table of people, whose error is a function of their rows, shape (batch, people, rank)."""

    @property
    def monotone(self) -> bool:
        """Whether the squares of `near` lie nowhere below the error."""

    @property
    def share(self) -> float:
        """The share ``s``."""

    @property
    def total(self) -> float:
        """The error if rows explain nothing."""

    @property
    def counts(self) -> Tensor:
        """The number of observed entries of each person, shape (people,)."""

    def factor(self, rows: Tensor) -> Tensor:
        """Return the best ``D`` for rows of people, in double precision, (batch, columns, rank)."""

    def near(self, rows: Tensor, damping: Tensor | None = None) -> Squares:
        """Return squares that touch the error at these rows.

        Args:
            rows: ``A``.
            damping: For a table that is not monotone, multiples of the weights, shape (batch,).
        """

    def mean_gram(self, rows: Tensor) -> Tensor:
        """Return about the mean of their ``G`` over the people, shape (batch, rank, rank)."""

    def value_and_slope(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error in double precision, shape (batch,), and half its gradient."""

    def value(self, rows: Tensor) -> Tensor:
        """Return the error in double precision, shape (batch,)."""


def unit_columns(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows with columns of length 1, in double precision, and the lengths they had."""
    rows = rows.double()
    length = torch.linalg.vector_norm(rows, dim=-2, keepdim=True)
    length = torch.where(length > 0, length, torch.ones_like(length))
    return rows / length, length


@dataclass(frozen=True, eq=False)
class SquaredTable:
    """A table of people with the squared error, whatever its units; sums are in double precision.

    Attributes:
        observations: Its observed entries, people in rows; in double precision.
    """

    observations: Observations

    @cached_property
    def norm_squared(self) -> float:
        """``||Y||**2`` over the observed entries."""
        return float(torch.linalg.vector_norm(self.observations.values)) ** 2

    @property
    def monotone(self) -> bool:
        """The squares are the error, for the best ``D`` now."""
        return True

    @property
    def share(self) -> float:
        """The share ``s``."""
        return SHRINKAGE

    @property
    def total(self) -> float:
        """``||Y||**2``."""
        return self.norm_squared

    @property
    def counts(self) -> Tensor:
        """The number of observed entries of each person, shape (people,)."""
        return self.observations.counts(0)

    def factor(self, rows: Tensor) -> Tensor:
        """Return the best ``D`` for rows of people, shape (batch, columns, rank).

        Args:
            rows: ``A``, shape (batch, people, rank).
        """
        unit, length = unit_columns(rows)
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
        found, shrinkage = sums.gram(0), SHRINKAGE * factor.square().sum(-2)
        if isinstance(found, RowGrams):
            return sums.target(0), found.plus(shrinkage)
        return sums.target(0), found + torch.diag_embed(shrinkage)

    def near(self, rows: Tensor, damping: Tensor | None = None) -> Squares:
        """Return the squared error for the factor that is best for these rows."""
        return Squares(*self.sums(rows, self.factor(rows)), self.norm_squared)

    def mean_gram(self, rows: Tensor) -> Tensor:
        """Return ``D^T D`` times the share of observed entries."""
        share = self.observations.values.numel() / prod(self.observations.shape)
        return gram(self.factor(rows)) * share

    def value_and_slope(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error in double precision, shape (batch,), and half its gradient."""
        exact = rows.double()
        target, own = self.sums(exact, self.factor(exact))
        products = own.products(exact) if isinstance(own, RowGrams) else exact @ own
        error = self.norm_squared + ((products - 2 * target) * exact).sum((-2, -1))
        return error.clamp_min(0), (products - target).to(rows)

    def value(self, rows: Tensor) -> Tensor:
        """Return the error in double precision, shape (batch,)."""
        return self.value_and_slope(rows)[0]
