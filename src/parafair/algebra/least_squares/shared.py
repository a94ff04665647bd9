"""The squared error in one block whose rows share one ``G``.

It is a quadratic function determined by two small matrices,

    (1/|X|) ||X - [[A, B, C]]||^2 = (||X||^2 - 2 <A, M> + <A G, A>) / |X|,

with ``M`` the MTTKRP and ``G`` the product of the other Gram matrices. All operations inside a
block cost O(n R^2) and do not read the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from parafair.algebra.devices import identity
from parafair.algebra.quadratic import QuadraticForm

# Damping of an ill-determined factor, as a share of its columns' curvature. At 1e-3, objectives are
# within 2 % of those with less damping, and components stay near the size of the data.
PULL = 1e-3


@dataclass(frozen=True, eq=False)
class SharedBlock:
    """The mean squared error as a function of one factor ``A`` of shape (batch, n, rank).

    Attributes:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, rank, rank).
        norm_squared: ``||X||**2``; or a constant for each member, shape (batch,).
        entries: ``|X|``, the number of entries of the tensor.
    """

    target: Tensor
    gram: Tensor
    norm_squared: float | Tensor
    entries: int

    @property
    def mean_gram(self) -> Tensor:
        """``G``, which all rows share."""
        return self.gram

    def value(self, factor: Tensor) -> Tensor:
        """Return the loss of each member of the batch, in double precision, shape (batch,)."""
        # ||X||^2 nearly cancels for a good fit, so the sums must not round to single precision.
        factor, gram, target = factor.double(), self.gram.double(), self.target.double()
        inner = ((factor @ gram - 2 * target) * factor).sum((-2, -1))
        return (self.norm_squared + inner).clamp_min(0) / self.entries

    def take(self, members: Tensor) -> SharedBlock:
        """Return the loss for some members of the batch."""
        return replace(
            self,
            target=self.target[members],
            gram=self.gram[members],
            norm_squared=constant_of(self.norm_squared, members),
        )

    def pool(self, rows: Tensor, weights: Tensor) -> SharedBlock:
        """Return the loss of rows that several rows have in common, up to a constant."""
        target = sum_rows(self.target, rows, weights)
        return replace(self, target=target, gram=self.gram * weights.sum())

    def best_multiple(self, factor: Tensor) -> Tensor:
        """Return the multiple of a factor with the smallest loss, shape (batch,)."""
        inner = (factor * self.target).sum((-2, -1))
        own = ((factor @ self.gram) * factor).sum((-2, -1))
        return torch.where(own > 0, inner / own, torch.ones_like(own))

    def best_mean(self, factor: Tensor) -> Tensor:
        """Return the mean row that minimizes a factor's loss, shape (batch, 1, rank)."""
        mean = replace(self, target=self.target.mean(-2, keepdim=True))
        return mean.improve(factor.mean(-2, keepdim=True))

    def change_basis(self, basis: Tensor) -> SharedBlock:
        """Return the loss as a function of ``Z`` with ``A = Z @ basis``."""
        gram = basis @ self.gram @ basis.mT
        return replace(self, target=self.target @ basis.mT, gram=gram)

    def affine_step(self, step: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map of one gradient step; step sizes (batch, 1, 1).

        It is affine, ``A -> A P + Q``. In a batch of one it takes and returns plain matrices, which
        are about a quarter faster.
        """
        scale = step * (2 / self.entries)
        stretch = identity(self.gram.shape[-1], self.gram) - scale * self.gram
        shift = scale * self.target
        if len(shift) > 1:
            return lambda factor: torch.baddbmm(shift, factor, stretch)
        stretch, shift = stretch[0], shift[0]
        return lambda factor: torch.addmm(shift, factor, stretch)

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (batch, rank) and eigenvectors (batch, rank, rank) of ``G``."""
        try:
            values, vectors = torch.linalg.eigh(self.gram)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            # A member that overflowed becomes NaN; the rest of the batch continues.
            finite = torch.isfinite(self.gram).all(-1).all(-1)[..., None]
            values, vectors = torch.linalg.eigh(self.gram.where(finite[..., None], 0.0))
            values = values.where(finite, torch.nan)
        return values, vectors

    def curvature(self, form: QuadraticForm) -> Tensor:
        """Return the Lipschitz constant of the gradient of loss + form, shape (batch,)."""
        return 2 * self.spectrum[0][..., -1] / self.entries + 2 * form.largest

    def solve(self, right: Tensor) -> Tensor:
        """Return ``G^-1`` times rows of shape (batch, n, rank); zero in flat directions."""
        return replace(self, target=right).minimizer(QuadraticForm.zero(right))

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Return the exact minimizer of loss + form.

        It solves the Sylvester equation ``A G / |X| + L A = M / |X|`` in the eigenvectors of
        ``G`` and ``L``. The solution is zero in flat directions.
        """
        rounding = 2 / self.entries * self.gram.shape[-1] * torch.finfo(self.gram.dtype).eps
        flat = self.spectrum[0][..., -1, None, None] * rounding

        def solve(curvature: Tensor, target: Tensor) -> Tensor:
            # A NaN curvature must give NaN.
            return torch.where(curvature <= flat, 0.0, target / curvature)

        return self._in_spectrum(form, solve, self.target * (2 / self.entries))

    def descend(self, factor: Tensor, form: QuadraticForm, *, step: Tensor, count: int) -> Tensor:
        """Return the factor after `count` gradient steps on loss + form, in closed form.

        Each step is an affine map that is diagonal in the eigenvectors of ``G`` and ``L``:
        an entry with curvature ``c`` becomes ``q a + step * t`` with ``q = 1 - step * c``, so
        `count` steps give ``q**count a + step * t * (1 + q + ... + q**(count - 1))``.

        Args:
            factor: The initial factor, shape (batch, n, rank).
            form: The quadratic penalty on this factor.
            step: Step sizes, shape (batch,).
            count: Number of steps.
        """
        step = step[..., None, None]

        def steps(curvature: Tensor, factor: Tensor, target: Tensor) -> Tensor:
            power, total = geometric(1 - step * curvature, count)
            return power * factor + step * total * target

        return self._in_spectrum(form, steps, factor, self.target * (2 / self.entries))

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Minimize loss + ``<slope, A> + weight/2 ||A - anchor||^2`` exactly.

        Args:
            anchor: Shape (batch, n, rank).
            slope: Shape (batch, n, rank).
            weight: Positive, shape (batch,).
        """
        values, vectors = self.spectrum
        weight = weight[..., None, None]
        right = self.target * (2 / self.entries) - slope + weight * anchor
        curvature = values.unsqueeze(-2) * (2 / self.entries) + weight
        return ((right @ vectors) / curvature) @ vectors.mT

    def improve(self, factor: Tensor) -> Tensor:
        """Return the minimizer of the loss, damped where it is ill-determined.

        If columns of the other factors are nearly dependent, exact minimizers diverge to huge
        components that cancel, until rounding errors increase the loss. So columns are scaled and
        a proximal term pulls them towards `factor`; the loss does not increase.
        """
        diagonal = self.gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        scale = torch.where(diagonal > 0, diagonal.rsqrt(), torch.ones_like(diagonal))
        block = self.change_basis(torch.diag_embed(scale.squeeze(-2)))
        weight = torch.full_like(diagonal[..., 0, 0], 2 / self.entries * PULL)
        return block.proximal(factor / scale, torch.zeros_like(factor), weight) * scale

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Minimize over one column at a time at fixed norm; one pass.

        With its norm fixed, a column's own quadratic term is constant, so the best column
        points along ``M[:, r] - sum_{s != r} G[s, r] A[:, s]``.
        """
        factor = factor.clone()
        norms = torch.linalg.vector_norm(factor, dim=-2)
        tiny = torch.finfo(factor.dtype).tiny
        for r in range(factor.shape[-1]):
            others = (factor @ self.gram[..., r : r + 1]).squeeze(-1)
            own = factor[..., r] * self.gram[..., r, r].unsqueeze(-1)
            column = self.target[..., r] - others + own
            length = torch.linalg.vector_norm(column, dim=-1)
            scaled = column * (norms[..., r] / length.clamp_min(tiny)).unsqueeze(-1)
            factor[..., r] = torch.where(length.unsqueeze(-1) > tiny, scaled, factor[..., r])
        return factor

    def _in_spectrum(
        self, form: QuadraticForm, function: Callable[..., Tensor], *matrices: Tensor
    ) -> Tensor:
        """Apply a function of the curvature, linear in `matrices`, in its eigenvectors.

        The curvature of loss + form in the eigenvectors of ``G`` (columns) and ``L`` (rows)
        is ``2 g_j / |X| + 2 l_i``; all rows outside the range of ``L`` share one value.
        """
        values, vectors = self.spectrum
        outside = values.unsqueeze(-2) * (2 / self.entries) + 2 * form.ridge
        rotated = [matrix @ vectors for matrix in matrices]
        result = function(outside, *rotated)
        if form.values.shape[-1]:
            along = [form.along(matrix) for matrix in rotated]
            inside = outside + 2 * form.values.unsqueeze(-1)
            change = function(inside, *along) - function(outside, *along)
            result = result + form.directions @ change
        return result @ vectors.mT


def constant_of(constant: float | Tensor, members: Tensor) -> float | Tensor:
    """Return the constant of some members of the batch."""
    return constant[members] if isinstance(constant, Tensor) else constant


def sum_rows(values: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """Return weighted sums of rows.

    Args:
        values: Shape (batch, n, ...).
        rows: The rows in each sum, shape (sums, k).
        weights: Shape (k,).
    """
    total = weights[0] * values[:, rows[:, 0]]
    for column, weight in zip(rows.mT[1:], weights[1:], strict=True):
        total = total + weight * values[:, column]
    return total


def geometric(ratio: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ``ratio**count`` and ``1 + ratio + ... + ratio**(count - 1)``.

    Computed by repeated doubling: unlike ``(1 - ratio**count) / (1 - ratio)``, it loses no digits
    if the ratio is close to one.
    """
    power, total = torch.ones_like(ratio), torch.zeros_like(ratio)
    for bit in bin(count)[2:]:
        power, total = power * power, total * (1 + power)
        if bit == "1":
            power, total = power * ratio, 1 + ratio * total
    return power, total
