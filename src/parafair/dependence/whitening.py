"""Whitening: embeddings without units, and gradients through it."""

from __future__ import annotations

from typing import NamedTuple

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


def spread_basis(rows: Tensor) -> Tensor:
    """Return the matrix ``B`` such that ``normal @ B`` has the covariance of rows, (rank, rank).

    A constant column has no spread: its column of the matrix is zero.

    Args:
        rows: The rows whose covariance is taken, shape (n, rank).
    """
    return Standardized.of(rows).basis.masked_fill((rows == rows[:1]).all(0), 0.0)


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
        self._robust = RobustUnits(self._usual.columns)
        self.whitened = self._usual.whitened
        self.robust, self.components = self._robust.whitened, self._robust.columns

    def pull_back(self, for_whitened: Tensor, for_robust: Tensor, for_components: Tensor) -> Tensor:
        """Return the gradient in the rows from the gradients in each kind of columns."""
        for_columns = self._robust.pull_back(for_robust, for_components)
        return self._usual.pull_back(for_whitened, for_columns)


class Reweighting(NamedTuple):
    """One step towards the robust mean and covariance.

    Attributes:
        before: Centered rows, shape (batch, n, rank).
        inverse: That of the Cholesky factor of their scatter, shape (batch, rank, rank).
        weights: The new weight of each person, shape (batch, n, 1).
        after: Rows without their weighted mean, shape (batch, n, rank).
    """

    before: Tensor
    inverse: Tensor
    weights: Tensor
    after: Tensor

    @classmethod
    def of(cls, centered: Tensor, scatter: Tensor) -> Reweighting:
        """Return the step from these rows and their scatter."""
        rank = centered.shape[-1]
        lower = torch.linalg.cholesky(scatter)
        # The inverse is small, and a product with it is far faster than a system for every person.
        inverse = torch.linalg.solve_triangular(lower, identity(rank, lower), upper=False)
        distances = (centered @ inverse.mT).square().sum(-1, keepdim=True)
        weights = (rank + FREEDOM) / (FREEDOM + distances)
        mean = weights.mT @ centered / weights.sum(-2, keepdim=True)
        return cls(centered, inverse, weights, centered - mean)

    @property
    def scatter(self) -> Tensor:
        """The weighted scatter after the step."""
        return _scatter(self.weights * self.after, self.after)

    def pull_back(self, for_after: Tensor, for_scatter: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients in `before` and in its scatter from those in `after` and its own.

        Gradients in a scatter are symmetric.
        """
        n, rank = self.before.shape[-2:]
        through = self.after @ for_scatter / n
        for_after = for_after + 2 * self.weights * through
        for_weights = (through * self.after).sum(-1, keepdim=True)
        for_mean = -for_after.sum(-2, keepdim=True) / self.weights.sum(-2, keepdim=True)
        for_weights = for_weights + self.after @ for_mean.mT
        for_distances = -for_weights * self.weights.square() / (rank + FREEDOM)
        precision = self.inverse.mT @ self.inverse
        near = self.before @ precision
        for_before = for_after + self.weights * for_mean + 2 * for_distances * near
        return for_before, -(for_distances * near).mT @ near


class RobustUnits:
    """Columns in robust units, as `RowViews` describes them.

    Attributes:
        whitened: Uncorrelated columns, shape (batch, n, rank).
        columns: The columns of the embedding, shape (batch, n, rank).
    """

    whitened: Tensor
    columns: Tensor

    def __init__(self, columns: Tensor) -> None:
        # A member that has overflowed must become NaN without failing the whole batch.
        finite = torch.isfinite(columns).all(-1, keepdim=True).all(-2, keepdim=True)
        centered = columns.where(finite, 0.0)
        scatter = _scatter(centered, centered)
        self._steps: list[Reweighting] = []
        for _ in range(REWEIGHTINGS):
            step = Reweighting.of(centered, scatter)
            centered, scatter = step.after, step.scatter
            self._steps.append(step)
        self._spread = scatter.diagonal(dim1=-2, dim2=-1).sqrt().unsqueeze(-2)
        self._correlations = scatter / (self._spread.mT * self._spread)
        values, self._vectors = torch.linalg.eigh(self._correlations)
        self._scales = (values.clamp_min(0) + RIDGE).sqrt()
        # The symmetric root is smooth where eigenvalues meet, unlike eigenvectors.
        self._root = (self._vectors / self._scales.unsqueeze(-2)) @ self._vectors.mT
        self._columns = centered / self._spread
        self.columns = self._columns.where(finite, torch.nan)
        self.whitened = (self._columns @ self._root).where(finite, torch.nan)

    def pull_back(self, for_whitened: Tensor, for_columns: Tensor) -> Tensor:
        """Return the gradient in the given columns from the gradients in both outputs."""
        columns, spread, vectors = self._columns, self._spread, self._vectors
        one, two = self._scales.unsqueeze(-1), self._scales.unsqueeze(-2)
        for_root = columns.mT @ for_whitened
        for_root = (for_root + for_root.mT) / 2
        inner = -(vectors.mT @ for_root @ vectors) / (one * two * (one + two))
        for_correlations = vectors @ inner @ vectors.mT
        for_columns = for_columns + for_whitened @ self._root
        for_spread = (for_columns * columns).sum(-2, keepdim=True)
        for_spread = for_spread + 2 * (for_correlations * self._correlations).sum(-2, keepdim=True)
        for_scatter = for_correlations / (spread.mT * spread)
        along = (for_spread / (2 * spread.square())).squeeze(-2)
        for_scatter = for_scatter - torch.diag_embed(along)
        gradient = for_columns / spread
        for step in reversed(self._steps):
            gradient, for_scatter = step.pull_back(gradient, for_scatter)
        begin = self._steps[0].before
        found: Tensor = gradient + 2 * begin @ for_scatter / begin.shape[-2]
        return found


def _scatter(first: Tensor, second: Tensor) -> Tensor:
    """Return ``first.T @ second`` over the number of people, with a small ridge."""
    n, rank = second.shape[-2:]
    found: Tensor = first.mT @ second / n + RIDGE * identity(rank, second)
    return found


def principal_plane(rows: Tensor) -> Tensor:
    """Return the two principal components of standardized rows, for a picture, shape (n, 2)."""
    left, singular, _ = torch.linalg.svd(Standardized.of(rows).columns, full_matrices=False)
    plane = (left * singular)[:, :2]
    return torch.nn.functional.pad(plane, (0, 2 - plane.shape[1]))
