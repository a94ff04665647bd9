"""The squared error in one block with missing entries: every row has its own ``G``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parafair.algebra.devices import identity
from parafair.algebra.least_squares.shared import PULL, SharedBlock, sum_rows
from parafair.algebra.quadratic import QuadraticForm


@dataclass(frozen=True, eq=False)
class RowwiseBlock:
    """``(||X||^2 + sum_i (a_i G_i a_i - 2 a_i m_i)) / |X|`` for the rows ``a_i`` of a factor.

    Attributes:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, n, rank, rank).
        norm_squared: ``||X||**2`` over the observed entries.
        entries: ``|X|``, the number of observed entries.
    """

    target: Tensor
    gram: Tensor
    norm_squared: float
    entries: int

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member of the batch, in double precision, shape (batch,)."""
        # ||X||^2 nearly cancels for a good fit, so the sums must not round to single precision.
        factor, gram, target = factor.double(), self.gram.double(), self.target.double()
        inner = ((_times(gram, factor) - 2 * target) * factor).sum((-2, -1))
        return (self.norm_squared + inner).clamp_min(0) / self.entries

    def take(self, members: Tensor) -> RowwiseBlock:
        """Return the function for some members of the batch."""
        return replace(self, target=self.target[members], gram=self.gram[members])

    def pool(self, rows: Tensor, weights: Tensor) -> RowwiseBlock:
        """Return the function of rows that several rows have in common, up to a constant."""
        target, gram = (sum_rows(part, rows, weights) for part in (self.target, self.gram))
        return replace(self, target=target, gram=gram)

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the multiple of a factor with the smallest value, shape (batch,)."""
        inner = (factor * self.target).sum((-2, -1))
        own = (_times(self.gram, factor) * factor).sum((-2, -1))
        return torch.where(own > 0, inner / own, torch.ones_like(own))

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row that minimizes a factor's value, shape (batch, 1, rank)."""
        mean = factor.mean(-2, keepdim=True)
        left = self.target - _times(self.gram, factor - mean)
        together = SharedBlock(
            left.mean(-2, keepdim=True), self.gram.mean(-3), self.norm_squared, self.entries
        )
        return together.improve(mean)

    def change_basis(self, basis: Tensor) -> RowwiseBlock:
        """Return the same as a function of ``Z`` with ``A = Z @ basis``."""
        # One wide product for all rows instead of many small ones.
        wide = torch.einsum("...ri,...sj->...ijrs", basis, basis).flatten(-4, -3).flatten(-2)
        gram = (self.gram.flatten(-2) @ wide).reshape(self.gram.shape)
        return replace(self, target=self.target @ basis.mT, gram=gram)

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map of one gradient step; step sizes (batch, 1, 1)."""
        scale = step * (2 / self.entries)
        stretch = identity(self.gram.shape[-1], self.gram) - scale.unsqueeze(-1) * self.gram
        shift = scale * self.target
        if len(shift) == 1:
            stretch, shift = stretch[0], shift[0]
        return lambda factor: shift + _times(stretch, factor)

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient of this plus the form, shape (batch,)."""
        finite = torch.isfinite(self.gram).flatten(1).all(-1)
        gram = self.gram.where(finite[:, None, None, None], 0.0)
        largest = torch.linalg.eigvalsh(gram)[..., -1].amax(-1)
        curvature: Tensor = largest.where(finite, torch.nan) * (2 / self.entries)
        return curvature + 2 * form.largest

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the exact minimizer of this plus the form.

        Rows are coupled only through the low-rank form. With ``D`` the block-diagonal matrix of
        ``G_i + ridge`` and ``L = Q diag(v) Q.T``, Woodbury's identity leaves one system with a row
        for each direction and component.
        """
        curvature = self._curvatures(2 * form.ridge)
        right = self.target * (2 / self.entries)
        plain = _solve(curvature, right.unsqueeze(-1)).squeeze(-1)
        if not form.values.shape[-1]:
            return plain
        directions, values = form.directions, 2 * form.values
        k, rank = directions.shape[1], right.shape[-1]
        inverse = _solve(curvature, identity(rank, right).expand_as(curvature))
        # Q.T D^-1 Q, a matrix over (direction, component) pairs.
        middle = torch.einsum("ik,birs,il->bkrls", directions, inverse, directions)
        root = values.sqrt().expand(len(right), k)
        scaled = root[:, :, None, None, None] * middle * root[:, None, None, :, None]
        system = scaled.reshape(-1, k * rank, k * rank) + identity(k * rank, right)
        along = root.unsqueeze(-1) * (directions.mT @ plain)
        held = torch.linalg.solve(system, along.reshape(-1, k * rank, 1)).reshape(along.shape)
        change = directions @ (root.unsqueeze(-1) * held)
        return plain - _times(inverse, change)

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Return the factor after `count` gradient steps of size `step`, shape (batch,)."""
        step = step[:, None, None]
        affine = self.affine_step(step)
        shape = factor.shape
        if len(factor) == 1:
            factor, step = factor[0], step[0]
        for _ in range(count):
            factor = affine(factor) - 2 * step * form.apply(factor)
        return factor.reshape(shape)

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Minimize this + ``<slope, A> + weight/2 ||A - anchor||^2`` exactly."""
        right = self.target * (2 / self.entries) - slope + weight[:, None, None] * anchor
        curvature = self._curvatures(weight[:, None, None])
        return _solve(curvature, right.unsqueeze(-1)).squeeze(-1)

    def improve(self, factor: Tensor) -> Tensor:
        """Return the minimizer, damped where it is ill-determined.

        As for a shared ``G``, but columns are scaled by the mean over the rows: rows with few
        entries are damped more.
        """
        diagonal = self.gram.diagonal(dim1=-2, dim2=-1).mean(-2, keepdim=True)
        scale = torch.where(diagonal > 0, diagonal.rsqrt(), torch.ones_like(diagonal))
        block = self.change_basis(torch.diag_embed(scale.squeeze(-2)))
        weight = torch.full_like(diagonal[..., 0, 0], 2 / self.entries * PULL)
        return block.proximal(factor / scale, torch.zeros_like(factor), weight) * scale

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Decrease the value over one column at a time at fixed norm; one pass.

        A column's own quadratic term is bounded by its largest curvature times the squared norm,
        which is constant. With equal curvatures this is exact.
        """
        factor = factor.clone()
        norms = torch.linalg.vector_norm(factor, dim=-2)
        tiny = torch.finfo(factor.dtype).tiny
        for r in range(factor.shape[-1]):
            own = self.gram[..., r, r]
            slope = self.target[..., r] - (self.gram[..., r, :] * factor).sum(-1)
            column = slope + own.amax(-1, keepdim=True) * factor[..., r]
            length = torch.linalg.vector_norm(column, dim=-1)
            scaled = column * (norms[..., r] / length.clamp_min(tiny)).unsqueeze(-1)
            factor[..., r] = torch.where(length.unsqueeze(-1) > tiny, scaled, factor[..., r])
        return factor

    def _curvatures(self, more: Tensor | float) -> Tensor:
        """Return the curvature of each row, plus `more` on the diagonal."""
        curvature = self.gram * (2 / self.entries)
        curvature.diagonal(dim1=-2, dim2=-1).add_(more)
        return curvature


def _times(matrices: Tensor, rows: Tensor) -> Tensor:
    """Return ``G_i a_i`` for every row, shape (..., n, rank)."""
    return (matrices * rows.unsqueeze(-2)).sum(-1)


def _solve(matrices: Tensor, right: Tensor) -> Tensor:
    """Solve a positive definite system for each row; the solution is zero in flat directions."""
    root, failed = torch.linalg.cholesky_ex(matrices)
    solution = torch.cholesky_solve(right, root)
    if failed.any():
        # Too few entries in a row and no ridge: use the minimum-norm solution.
        where = failed.nonzero(as_tuple=True)
        singular = matrices[where]
        sound = torch.isfinite(singular).flatten(1).all(-1)[:, None, None]
        inverse = torch.linalg.pinv(singular.where(sound, 0.0), hermitian=True)
        solution[where] = (inverse @ right[where]).where(sound, torch.nan)
    return solution
