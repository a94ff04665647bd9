"""Whitening: embeddings without units, and gradients through it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parafair.algebra.devices import identity
from parafair.team import ALONE, Team

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
        gram: Products of the columns, summed over all people, shape (..., rank, rank).
        scales: Roots of the eigenvalues of the columns' correlations, shape (..., rank).
        vectors: Eigenvectors of the correlations, shape (..., rank, rank).
        people: How many rows there are, those of other processes included.
        team: All processes.
    """

    whitened: Tensor
    columns: Tensor
    spread: Tensor
    gram: Tensor
    scales: Tensor
    vectors: Tensor
    people: int
    team: Team

    @classmethod
    def of(cls, rows: Tensor, team: Team = ALONE) -> Standardized:
        """Standardize rows, shape (..., n, rank); a constant column becomes zero.

        Args:
            rows: The rows of this process.
            team: All processes whose rows are standardized together.
        """
        rows = rows.double()
        mean, people = rows.mean(-2, keepdim=True), rows.shape[-2]
        centered = rows - mean
        size = _largest(centered)
        if team.is_alone:
            spread = size * _positive((centered / size).square().mean(-2, keepdim=True).sqrt())
            columns = centered / spread
            gram = columns.mT @ columns
        else:
            relative = centered / size
            own = Moments(mean, size, relative.mT @ relative, people)
            mean, size, gram, people = own.together(team)
            variance = gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-2) / people
            relative = _positive(variance.sqrt())
            spread, gram = size * relative, gram / (relative.mT * relative)
            columns = (rows - mean) / spread
        correlations = gram / people
        # A member that has overflowed must become NaN without failing the whole batch.
        finite = torch.isfinite(correlations).all(-1, keepdim=True).all(-2, keepdim=True)
        values, vectors = torch.linalg.eigh(correlations.where(finite, 0.0))
        values = values.where(finite.squeeze(-1), torch.nan)
        scales = (values.clamp_min(0) + RIDGE).sqrt()
        # The symmetric root: unlike eigenvectors, it does not jump when eigenvalues meet.
        root = (vectors / scales.unsqueeze(-2)) @ vectors.mT
        return cls(columns @ root, columns, spread, gram, scales, vectors, people, team)

    @property
    def basis(self) -> Tensor:
        """``B`` with ``A = whitened @ B`` up to a shift, shape (..., rank, rank)."""
        return (self.vectors * self.scales.unsqueeze(-2)) @ self.vectors.mT * self.spread

    def pull_back(self, for_whitened: Tensor, for_columns: Tensor) -> Tensor:
        """Return the gradient in the rows from the gradients in `whitened` and `columns`.

        The derivative of ``C^(-1/2)`` in the eigenvectors of ``C`` is entrywise, with the divided
        differences ``-1 / (s_i s_j (s_i + s_j))`` of ``1 / s``, which need no subtraction.
        """
        vectors = self.vectors
        one, two = self.scales.unsqueeze(-1), self.scales.unsqueeze(-2)
        if not self.team.is_alone:
            return self._pull_back_together(for_whitened, for_columns)
        inner = vectors.mT @ (self.columns.mT @ for_whitened) @ vectors
        inner = -(inner + inner.mT) / (self.people * one * two * (one + two))
        gradient = (for_whitened @ vectors / two + self.columns @ vectors @ inner) @ vectors.mT
        gradient = gradient + for_columns
        along = (self.columns * gradient).mean(-2, keepdim=True)
        gradient = (gradient - self.columns * along) / self.spread
        return gradient - gradient.mean(-2, keepdim=True)

    def _pull_back_together(self, for_whitened: Tensor, for_columns: Tensor) -> Tensor:
        """Return the same by one message: means of what is known, as columns have mean zero."""
        columns, vectors = self.columns, self.vectors
        one, two = self.scales.unsqueeze(-1), self.scales.unsqueeze(-2)
        known = for_whitened @ vectors / two @ vectors.mT + for_columns
        inner, along, mean = self.team.sums(
            [
                columns.mT @ for_whitened,
                (columns * known).sum(-2, keepdim=True),
                known.sum(-2, keepdim=True),
            ]
        )
        inner = vectors.mT @ inner @ vectors
        inner = -(inner + inner.mT) / (self.people * one * two * (one + two))
        mixed = vectors @ inner @ vectors.mT
        along = along + (self.gram @ mixed).diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        gradient = known - mean / self.people + columns @ mixed - columns * along / self.people
        return gradient / self.spread


class Moments(NamedTuple):
    """Mean and scatter of the rows of a process.

    Attributes:
        mean: Shape (..., 1, rank).
        size: The unit of each column, shape (..., 1, rank).
        gram: Products of rows without their mean, in these units, shape (..., rank, rank).
        people: Number of rows.
    """

    mean: Tensor
    size: Tensor
    gram: Tensor
    people: int

    def together(self, team: Team) -> Moments:
        """Return the moments of the rows of all processes, by one message.

        Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983: nothing
        cancels, and no square overflows in the units of the largest entry.
        """
        own = torch.cat([self.mean, self.size, self.gram], -2).movedim(-2, 0)
        count = torch.full_like(own[:1], self.people)
        found = torch.stack(team.collect_alike(torch.cat([own, count])))
        mean, size, count = (found[:, place].unsqueeze(-2) for place in (0, 1, -1))
        gram = found[:, 2:-1].movedim(1, -2)
        total = count.sum(0)
        middle = (count * mean).sum(0) / total
        apart = mean - middle
        unit = _positive(torch.maximum(size, apart.abs()).amax(0))
        ratio, apart = size / unit, apart / unit
        both = gram * (ratio.mT * ratio) + count * (apart.mT * apart)
        people = int(total.flatten()[0])
        return Moments(middle, unit, both.sum(0), people)


def _largest(centered: Tensor) -> Tensor:
    """Return the largest entry of each column, a unit in which squares neither overflow nor vanish.

    That of a column of zeros is 1.
    """
    return _positive(centered.abs().amax(-2, keepdim=True))


def _positive(sizes: Tensor) -> Tensor:
    """Return sizes with 1 in the place of 0."""
    return torch.where(sizes > 0, sizes, torch.ones_like(sizes))


def spread_basis(rows: Tensor, team: Team = ALONE) -> Tensor:
    """Return the matrix ``B`` such that ``normal @ B`` has the covariance of rows, (rank, rank).

    A constant column has no spread: its column of the matrix is zero.

    Args:
        rows: The rows whose covariance is taken, shape (n, rank).
        team: All processes that have some of these rows.
    """
    constant = team.largest(rows.amax(0)) == -team.largest(-rows.amin(0))
    return Standardized.of(rows, team).basis.masked_fill(constant, 0.0)


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

    def __init__(self, rows: Tensor, team: Team = ALONE) -> None:
        self._usual = Standardized.of(rows, team)
        self._robust = RobustUnits(self._usual)
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
        total: The sum of the weights of all people, shape (batch, 1, 1).
        scatter: The weighted scatter after the step, shape (batch, rank, rank).
        people: How many people there are.
        team: All processes.
    """

    before: Tensor
    inverse: Tensor
    weights: Tensor
    after: Tensor
    total: Tensor
    scatter: Tensor
    people: int
    team: Team

    @classmethod
    def of(cls, centered: Tensor, scatter: Tensor, people: int, team: Team) -> Reweighting:
        """Return the step from these rows and their scatter."""
        rank = centered.shape[-1]
        lower = torch.linalg.cholesky(scatter)
        # The inverse is small, and a product with it is far faster than a system for every person.
        inverse = torch.linalg.solve_triangular(lower, identity(rank, lower), upper=False)
        distances = (centered @ inverse.mT).square().sum(-1, keepdim=True)
        weights = (rank + FREEDOM) / (FREEDOM + distances)
        sums = [weights.mT @ centered, weights.sum(-2, keepdim=True)]
        if team.is_alone:
            summed, total = sums
            after = centered - summed / total
            scattered = (weights * after).mT @ after
        else:  # by one message: the mean is near zero already, and so is what cancels
            sums.append((weights * centered).mT @ centered)
            summed, total, scattered = team.sums(sums)
            after = centered - summed / total
            scattered = scattered - summed.mT @ summed / total
        scatter = _with_ridge(scattered / people)
        return cls(centered, inverse, weights, after, total, scatter, people, team)

    def pull_back(
        self, for_after: Tensor, for_scatter: Tensor, total: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the gradients in `before` and in its scatter from those in `after` and its own.

        Gradients in a scatter are symmetric.

        Args:
            for_after: The gradient in `after`.
            for_scatter: That in its scatter, the same in all processes.
            total: The sum of `for_after` over the people of all processes; None for one process.

        Returns:
            Both gradients, and the sum of the first like `total`.
        """
        rank = self.before.shape[-1]
        through = self.after @ for_scatter / self.people
        for_after = for_after + 2 * self.weights * through
        for_weights = (through * self.after).sum(-1, keepdim=True)
        # The sum of weighted rows is zero, so what goes through the scatter adds nothing to it.
        summed = for_after.sum(-2, keepdim=True) if total is None else total
        for_mean = -summed / self.total
        for_weights = for_weights + self.after @ for_mean.mT
        for_distances = -for_weights * self.weights.square() / (rank + FREEDOM)
        precision = self.inverse.mT @ self.inverse
        near = self.before @ precision
        for_before = for_after + self.weights * for_mean + 2 * for_distances * near
        own = (for_distances * near).mT @ near
        if total is None:
            return for_before, -own, None
        found, total = self.team.sums([own, for_before.sum(-2, keepdim=True)])
        return for_before, -found, total


class RobustUnits:
    """Columns in robust units, as `RowViews` describes them.

    Attributes:
        whitened: Uncorrelated columns, shape (batch, n, rank).
        columns: The columns of the embedding, shape (batch, n, rank).
    """

    whitened: Tensor
    columns: Tensor

    def __init__(self, usual: Standardized) -> None:
        people, team = self._people, self._team = usual.people, usual.team
        # A member that has overflowed must become NaN without failing the whole batch.
        finite = torch.isfinite(usual.gram).all(-1, keepdim=True).all(-2, keepdim=True)
        centered = usual.columns.where(finite, 0.0)
        scatter = _with_ridge(usual.gram.where(finite, 0.0) / people)
        self._steps: list[Reweighting] = []
        for _ in range(REWEIGHTINGS):
            step = Reweighting.of(centered, scatter, people, team)
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
        for_columns = for_columns + for_whitened @ self._root
        sums, total = (
            [columns.mT @ for_whitened, (for_columns * columns).sum(-2, keepdim=True)],
            None,
        )
        if not self._team.is_alone:  # steps send with their own sums what the one before needs
            *sums, total = self._team.sums([*sums, for_columns.sum(-2, keepdim=True)])
            total = total / spread
        for_root, for_spread = sums
        for_root = (for_root + for_root.mT) / 2
        inner = -(vectors.mT @ for_root @ vectors) / (one * two * (one + two))
        for_correlations = vectors @ inner @ vectors.mT
        for_spread = for_spread + 2 * (for_correlations * self._correlations).sum(-2, keepdim=True)
        for_scatter = for_correlations / (spread.mT * spread)
        along = (for_spread / (2 * spread.square())).squeeze(-2)
        for_scatter = for_scatter - torch.diag_embed(along)
        gradient = for_columns / spread
        for step in reversed(self._steps):
            gradient, for_scatter, total = step.pull_back(gradient, for_scatter, total)
        begin = self._steps[0].before
        found: Tensor = gradient + 2 * begin @ for_scatter / self._people
        return found


def _with_ridge(scatter: Tensor) -> Tensor:
    """Return a scatter with a small ridge."""
    return scatter + RIDGE * identity(scatter.shape[-1], scatter)


def principal_plane(rows: Tensor) -> Tensor:
    """Return the two principal components of standardized rows, for a picture, shape (n, 2)."""
    left, singular, _ = torch.linalg.svd(Standardized.of(rows).columns, full_matrices=False)
    plane = (left * singular)[:, :2]
    return torch.nn.functional.pad(plane, (0, 2 - plane.shape[1]))
