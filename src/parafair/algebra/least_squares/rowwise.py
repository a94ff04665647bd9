"""The squared error in one block with missing entries: every row has its own ``G``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parafair.algebra.devices import identity, tile_of
from parafair.algebra.least_squares.shared import PULL, SharedBlock, constant_of, sum_rows
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.row_grams import RowGrams, places_of, solve_rows
from parafair.team import ALONE, Team

# Matrices of one call for eigenvalues: a CUDA device takes half a megabyte for each, however small.
MOST_EIGENVALUES = {"cpu": 2**14, "cuda": 2**12}


@dataclass(frozen=True, eq=False)
class RowwiseBlock:
    """``(||X||^2 + sum_i (a_i G_i a_i - 2 a_i m_i)) / |X|`` for the rows ``a_i`` of a factor.

    Attributes:
        target: ``M``, shape (batch, n, rank).
        grams: ``G``, one for each row.
        norm_squared: ``||X||**2`` over the observed entries; or a constant for each member.
        entries: ``|X|``, the number of observed entries.
        team: All processes that have some of the rows. They take the same steps.
    """

    target: Tensor
    grams: RowGrams
    norm_squared: float | Tensor
    entries: int
    team: Team = ALONE

    @property
    def mean_gram(self) -> Tensor:
        """The mean of ``G`` over the rows, shape (batch, rank, rank)."""
        return self.grams.mean()

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member of the batch, in double precision, shape (batch,)."""
        # ||X||^2 nearly cancels for a good fit, so the sums must not round to single precision.
        linear = (self.target.double() * factor.double()).sum((-2, -1))
        inner = self.grams.squares(factor) - 2 * linear
        return (self.norm_squared + inner).clamp_min(0) / self.entries

    def take(self, members: Tensor) -> RowwiseBlock:
        """Return the function for some members of the batch."""
        return replace(
            self,
            target=self.target[members],
            grams=self.grams.take(members),
            norm_squared=constant_of(self.norm_squared, members),
        )

    def pool(self, rows: Tensor, weights: Tensor) -> RowwiseBlock:
        """Return the function of rows that several rows have in common, up to a constant."""
        # Any rows may be pooled, so all matrices are needed.
        grams = sum_rows(self.grams.whole(), rows, weights)
        target = sum_rows(self.target, rows, weights)
        return replace(self, target=target, grams=RowGrams.of(grams, self.grams.rank))

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the multiple of a factor with the smallest value, shape (batch,)."""
        inner = (factor * self.target).sum((-2, -1))
        own = self.grams.squares(factor).to(factor.dtype)
        return torch.where(own > 0, inner / own, torch.ones_like(own))

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row that minimizes a factor's value, shape (batch, 1, rank)."""
        mean = factor.mean(-2, keepdim=True)
        left = self.target - self.grams.products(factor - mean)
        together = SharedBlock(
            left.mean(-2, keepdim=True), self.mean_gram, self.norm_squared, self.entries
        )
        return together.improve(mean)

    def change_basis(self, basis: Tensor) -> RowwiseBlock:
        """Return the same as a function of ``Z`` with ``A = Z @ basis``."""
        return replace(self, target=self.target @ basis.mT, grams=self.grams.change_basis(basis))

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map of one gradient step; step sizes (batch, 1, 1)."""
        scale = step * (2 / self.entries)

        def stepped(factor: Tensor) -> Tensor:
            batched = factor.reshape(self.target.shape)
            slope = self.grams.products(batched) - self.target
            return (batched - scale * slope).reshape(factor.shape)

        return stepped

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient of this plus the form, shape (batch,)."""
        largest = self.target.new_zeros(len(self.target))
        at_once = max(1, tile_of(MOST_EIGENVALUES, largest) // len(largest))
        for gram in (some for _, part in self.grams.matrices() for some in part.split(at_once, 1)):
            finite = torch.isfinite(gram).flatten(1).all(-1)
            values = torch.linalg.eigvalsh(gram.where(finite[:, None, None, None], 0.0))
            found = values[..., -1].amax(-1).where(finite, torch.nan)
            largest = torch.maximum(largest, found)  # NaN stays NaN
        return self.team.largest(largest) * (2 / self.entries) + 2 * form.largest

    def solve(self, right: Tensor) -> Tensor:
        """Return ``G^-1`` times rows of shape (batch, n, rank); zero in flat directions."""
        return self._solve(right * (2 / self.entries), self._more(0.0))

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the exact minimizer of this plus the form.

        Rows are coupled only through the low-rank form. With ``D`` the block-diagonal matrix of
        ``G_i + ridge`` and ``L = Q diag(v) Q.T``, Woodbury's identity leaves one system with a row
        for each direction and component.
        """
        right, more = self.target * (2 / self.entries), self._more(2 * form.ridge)
        plain = self._solve(right, more)
        if not form.values.shape[-1]:
            return plain
        directions, values = form.directions, 2 * form.values
        k, rank = directions.shape[1], right.shape[-1]
        # Q.T D^-1 Q, a matrix over (direction, component) pairs.
        middle = right.new_zeros(len(right), k, rank, k, rank)
        unit = identity(rank, right)
        for rows, curvature in self._curvatures(more).parts():
            columns = [solve_rows(curvature, e.expand(*curvature.shape[:2], rank)) for e in unit]
            inverse, some = torch.stack(columns, -1), directions[rows]
            middle += torch.einsum("ik,birs,il->bkrls", some, inverse, some)
        middle = form.team.sum(middle)
        root = values.sqrt().expand(len(right), k)
        scaled = root[:, :, None, None, None] * middle * root[:, None, None, :, None]
        system = scaled.reshape(-1, k * rank, k * rank) + identity(k * rank, right)
        along = root.unsqueeze(-1) * form.along(plain)
        held = _solve_symmetric(system, along.reshape(-1, k * rank, 1)).reshape(along.shape)
        change = directions @ (root.unsqueeze(-1) * held)
        return plain - self._solve(change, more)

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Return the factor after `count` gradient steps of size `step`, shape (batch,)."""
        step = step[:, None, None]
        affine = self.affine_step(step)
        for _ in range(count):
            factor = affine(factor) - 2 * step * form.apply(factor)
        return factor

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Minimize this + ``<slope, A> + weight/2 ||A - anchor||^2`` exactly."""
        right = self.target * (2 / self.entries) - slope + weight[:, None, None] * anchor
        return self._solve(right, self._more(weight))

    def improve(self, factor: Tensor) -> Tensor:
        """Return the minimizer, damped where it is ill-determined.

        As for a shared ``G``, but columns are scaled by the mean over the rows: rows with few
        entries are damped more.
        """
        diagonal = self._mean_of_all.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        scale = torch.where(diagonal > 0, diagonal.rsqrt(), torch.ones_like(diagonal))
        block = self.change_basis(torch.diag_embed(scale.squeeze(-2)))
        weight = torch.full_like(diagonal[..., 0, 0], 2 / self.entries * PULL)
        return block.proximal(factor / scale, torch.zeros_like(factor), weight) * scale

    @property
    def _mean_of_all(self) -> Tensor:
        """The mean of ``G`` over the rows of all processes."""
        mean = self.mean_gram
        if self.team.is_alone:
            return mean
        own = torch.full_like(mean[0, 0, 0], self.target.shape[-2], dtype=torch.float64)
        total, rows = self.team.sums([mean * own.to(mean), own])
        return total / rows.to(total)

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Decrease the value over one column at a time at fixed norm; one pass.

        A column's own quadratic term is bounded by its largest curvature times the squared norm,
        which is constant. With equal curvatures this is exact.
        """
        factor = factor.clone()
        norms = torch.linalg.vector_norm(factor, dim=-2)
        tiny = torch.finfo(factor.dtype).tiny
        places = places_of(self.grams.rank, factor.device)
        for r, place in enumerate(places):
            slope, largest = self.target[..., r].clone(), torch.zeros_like(norms[..., :1])
            for rows, part in self.grams.parts():
                slope[..., rows] -= (part[..., place] * factor[..., rows, :]).sum(-1)
                own = part[..., place[r]].amax(-1, keepdim=True)
                largest = torch.maximum(largest, own)
            column = slope + largest * factor[..., r]
            length = torch.linalg.vector_norm(column, dim=-1)
            scaled = column * (norms[..., r] / length.clamp_min(tiny)).unsqueeze(-1)
            factor[..., r] = torch.where(length.unsqueeze(-1) > tiny, scaled, factor[..., r])
        return factor

    def _more(self, weight: Tensor | float) -> Tensor:
        """Return the same addition to all diagonals, shape (batch, rank)."""
        none = self.target.new_zeros(len(self.target), self.grams.rank)
        return none + (weight[:, None] if isinstance(weight, Tensor) else weight)

    def _curvatures(self, more: Tensor) -> RowGrams:
        """Return the curvature of each row, plus `more` on the diagonal, shape (batch, rank)."""
        return self.grams.changed(lambda part: part * (2 / self.entries)).plus(more)

    def _solve(self, right: Tensor, more: Tensor) -> Tensor:
        """Solve for every row, with `more` on the diagonals of the curvatures."""
        found = torch.empty_like(right)
        for rows, curvature in self._curvatures(more).parts():
            found[:, rows] = solve_rows(curvature, right[:, rows])
        return found


def _solve_symmetric(system: Tensor, right: Tensor) -> Tensor:
    """Solve systems that are the identity plus a positive semidefinite matrix.

    If that matrix is so large that rounding hides the identity, it is singular to a solver.
    """
    found: Tensor
    found, failed = torch.linalg.solve_ex(system, right)
    if bool(failed.any()):
        values, vectors = torch.linalg.eigh((system + system.mT) / 2)
        found = vectors @ ((vectors.mT @ right) / values.clamp_min(1.0).unsqueeze(-1))
    return found
