"""Quadratic forms on the rows of a factor, stored in low rank without n x n matrices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.team import ALONE, Team


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """The function ``trace(A.T @ L @ A)`` with ``L = Q diag(values) Q.T + ridge * I``.

    Attributes:
        directions: ``Q``, orthonormal columns, shape (n, k); k may be 0.
        values: Non-negative, shape (k,), or (batch, k) with different values for each member.
        ridge: Non-negative multiple of the identity.
        team: All processes; each has some of the rows of the directions and of a factor.
    """

    directions: Tensor
    values: Tensor
    ridge: float = 0.0
    team: Team = ALONE

    @classmethod
    def from_columns(cls, columns: Tensor, ridge: float = 0.0) -> QuadraticForm:
        """Return the form with ``L = columns @ columns.T + ridge * I``, columns (n, d)."""
        directions, singular, _ = torch.linalg.svd(columns, full_matrices=False)
        kept = singular > singular.max() * columns.shape[0] * torch.finfo(columns.dtype).eps
        return cls(directions[:, kept], singular[kept] ** 2, ridge)

    @classmethod
    def zero(cls, like: Tensor) -> QuadraticForm:
        """Return the zero form for factors like `like`, shape (..., n, rank)."""
        return cls(like.new_zeros(like.shape[-2], 0), like.new_zeros(0))

    @property
    def largest(self) -> Tensor:
        """The largest eigenvalue of ``L``, shape () or (batch,)."""
        if not self.values.shape[-1]:
            return self.values.new_full(self.values.shape[:-1], self.ridge)
        return self.values.amax(-1) + self.ridge

    def along(self, factor: Tensor) -> Tensor:
        """Return ``Q.T @ A``, shape (..., k, rank)."""
        return self.team.sum(self.directions.mT @ factor)

    def apply(self, factor: Tensor) -> Tensor:
        """Return ``L @ A``, shape (..., n, rank)."""
        inside = self.along(factor)
        return self.directions @ (self.values.unsqueeze(-1) * inside) + self.ridge * factor

    def value(self, factor: Tensor) -> Tensor:
        """Return ``trace(A.T @ L @ A)``, shape (...)."""
        # A sum of squares, which rounding cannot make negative.
        inside = self.values.sqrt().unsqueeze(-1) * self.along(factor)
        found = inside.square().sum((-2, -1))
        if self.ridge:
            found = found + self.ridge * self.team.sum(factor.square().sum((-2, -1)))
        return found
