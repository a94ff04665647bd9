"""Whitening: embeddings without units, and gradients through it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from parafair.algebra.devices import identity

# Variances of whitened directions below this share of the largest are rounding error.
RIDGE = 1e-12

# Reweighting steps of the robust covariance, and degrees of freedom of the t distribution whose
# weights they use. Fewer degrees give people far away less weight.
REWEIGHTINGS, FREEDOM = 3, 2.0


class Standardized(NamedTuple):
    """Rows without units, and what is needed to return to the original ones.

    Attributes:
        whitened: Uncorrelated columns of variance 1, shape (..., n, rank).
        columns: Columns of variance 1, shape (..., n, rank).
        spread: Standard deviations of the columns, shape (..., 1, rank).
        scales: Roots of the eigenvalues of the columns' correlations, shape (..., rank).
        vectors: Eigenvectors of the correlations, shape (..., rank, rank).
    """

    whitened: Tensor
    columns: Tensor
    spread: Tensor
    scales: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Standardized:
        """Standardize rows, shape (..., n, rank); a constant column becomes zero."""
        rows = rows.double()
        centered = rows - rows.mean(-2, keepdim=True)
        # Divide by the largest entry first: squares must neither overflow nor vanish.
        size = centered.abs().amax(-2, keepdim=True)
        size = torch.where(size > 0, size, torch.ones_like(size))
        relative = (centered / size).square().mean(-2, keepdim=True).sqrt()
        spread = size * torch.where(relative > 0, relative, torch.ones_like(relative))
        columns = centered / spread
        correlations = columns.mT @ columns / rows.shape[-2]
        # A member that has overflowed must become NaN without failing the whole batch.
        finite = torch.isfinite(correlations).all(-1, keepdim=True).all(-2, keepdim=True)
        values, vectors = torch.linalg.eigh(correlations.where(finite, 0.0))
        values = values.where(finite.squeeze(-1), torch.nan)
        scales = (values.clamp_min(0) + RIDGE).sqrt()
        # The symmetric root: unlike eigenvectors, it does not jump when eigenvalues meet.
        root = (vectors / scales.unsqueeze(-2)) @ vectors.mT
        return cls(columns @ root, columns, spread, scales, vectors)

    @property
    def basis(self) -> Tensor:
        """``B`` with ``A = whitened @ B`` up to a shift, shape (..., rank, rank)."""
        return (self.vectors * self.scales.unsqueeze(-2)) @ self.vectors.mT * self.spread

    def pull_back(self, for_whitened: Tensor, for_columns: Tensor) -> Tensor:
        """Return the gradient in the rows from the gradients in `whitened` and `columns`.

        The derivative of ``C^(-1/2)`` in the eigenvectors of ``C`` is entrywise, with the divided
        differences ``-1 / (s_i s_j (s_i + s_j))`` of ``1 / s``, which need no subtraction.
        """
        n, vectors = self.columns.shape[-2], self.vectors
        one, two = self.scales.unsqueeze(-1), self.scales.unsqueeze(-2)
        inner = vectors.mT @ (self.columns.mT @ for_whitened) @ vectors
        inner = -(inner + inner.mT) / (n * one * two * (one + two))
        gradient = (for_whitened @ vectors / two + self.columns @ vectors @ inner) @ vectors.mT
        gradient = gradient + for_columns
        along = (self.columns * gradient).mean(-2, keepdim=True)
        gradient = (gradient - self.columns * along) / self.spread
        return gradient - gradient.mean(-2, keepdim=True)


class RowViews:
    """Rows in two kinds of units, with gradients.

    In the usual units, a few people far away determine variances and correlations. All others then
    lie in a small region, where no kernel tells them apart but an attacker with robust units does.
    In robust units, a direction in which people differ can be small against those in which a few
    are far away. So there are both. Robust means and covariances are those of a t distribution, by
    a fixed number of reweighting steps from the usual ones: Kent, Tyler and Vardi, "A curious
    likelihood identity for the multivariate t-distribution", 1994. A step gives a person at the
    distance ``d`` the weight ``(rank + f) / (f + d**2)``.

    Rescaling or shifting columns changes nothing, and mixing them only rotates whitened rows.

    Attributes:
        whitened: Uncorrelated columns in the usual units, shape (batch, n, rank).
        robust: Uncorrelated columns in robust units, shape (batch, n, rank).
        components: The columns of the embedding in robust units, shape (batch, n, rank).
    """

    whitened: Tensor
    robust: Tensor
    components: Tensor

    def __init__(self, rows: Tensor) -> None:
        self._usual = Standardized.of(rows)
        self.whitened = self._usual.whitened
        with torch.enable_grad():
            self._columns = self._usual.columns.detach().requires_grad_()
            self._outputs = _in_robust_units(self._columns)
        self.robust, self.components = (part.detach() for part in self._outputs)

    def pull_back(self, for_whitened: Tensor, for_robust: Tensor, for_components: Tensor) -> Tensor:
        """Return the gradient in the rows from the gradients in each kind of columns."""
        (gradient,) = torch.autograd.grad(
            self._outputs, (self._columns,), (for_robust, for_components)
        )
        return self._usual.pull_back(for_whitened, gradient)


def _in_robust_units(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return whitened rows and columns in robust units."""
    n, rank = columns.shape[-2:]
    unit = identity(rank, columns)
    # A member that has overflowed must become NaN without failing the whole batch.
    finite = torch.isfinite(columns).all(-1, keepdim=True).all(-2, keepdim=True)
    centered = columns.where(finite, 0.0)
    scatter = centered.mT @ centered / n + RIDGE * unit
    for _ in range(REWEIGHTINGS):
        lower = torch.linalg.cholesky(scatter)
        # The inverse is small, and a product with it is far faster than a system for every person.
        inverse = torch.linalg.solve_triangular(lower, unit, upper=False)
        weights = (rank + FREEDOM) / (FREEDOM + (centered @ inverse.mT).square().sum(-1))
        mean = (weights.unsqueeze(-1) * centered).sum(-2, keepdim=True)
        centered = centered - mean / weights.sum(-1)[..., None, None]
        scatter = (weights.unsqueeze(-1) * centered).mT @ centered / n + RIDGE * unit
    spread = scatter.diagonal(dim1=-2, dim2=-1).sqrt().unsqueeze(-2)
    columns = centered / spread
    root: Tensor = _InverseRoot.apply(scatter / (spread.mT * spread))  # type: ignore[no-untyped-call]
    return (columns @ root).where(finite, torch.nan), columns.where(finite, torch.nan)


class _InverseRoot(torch.autograd.Function):
    """``C^(-1/2)`` of symmetric matrices; unlike eigenvectors, it is smooth where they meet."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrix)
        scales = (values.clamp_min(0) + RIDGE).sqrt()
        ctx.save_for_backward(scales, vectors)
        root: Tensor = (vectors / scales.unsqueeze(-2)) @ vectors.mT
        return root

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        scales, vectors = ctx.saved_tensors
        one, two = scales.unsqueeze(-1), scales.unsqueeze(-2)
        inner = -(vectors.mT @ upstream @ vectors) / (one * two * (one + two))
        found: Tensor = vectors @ inner @ vectors.mT
        return found
