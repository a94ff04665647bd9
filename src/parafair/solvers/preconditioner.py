"""A block-diagonal model of the objective's curvature, one block per factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, cross_gram, gram, khatri_rao
from parafair.algebra.tucker_tensor import Multilinear, multiply
from parafair.dependence.whitening import RIDGE, Standardized
from parafair.penalties import BoundInvariant
from parafair.solvers.inner import sum_people
from parafair.solvers.packing import packed
from parafair.solvers.parameters import mode_of_basis, to_factors
from parafair.solvers.problem import Problem
from parafair.team import ALONE, Team

# Curvature added everywhere, as a share of the mean curvature of the loss: without it, steps
# along nearly dependent components would be huge.
DAMPING = 1e-3

# Share of the estimated curvature of a penalty that is used: changes of the gradient show the
# stiffest directions, most others are flatter. And the share of that which is left when all rows
# are mixed by one matrix, which changes only the part of the penalty for single columns.
STIFFNESS, MIXING = 0.3, 0.1

# Weight of the last step in the estimate.
LAST = 0.5

# Rows without entries have no curvature of their own; they count as if they had this share.
LEAST_WEIGHT = 1e-3


@packed
@dataclass(frozen=True, eq=False)
class RowWeights:
    """The share of each row in the curvature of the loss, over the mean of the rows of its mode.

    Attributes:
        rows: Shape (n, 1) or (batch, n, 1) for each mode; None if all are 1.
        level: The mean curvature of an entry, shape (batch,); None for the squared error, which has
            the same curvature at all entries.
    """

    rows: tuple[Tensor | None, ...]
    level: Tensor | None = None

    @classmethod
    def of(cls, problem: Problem, factors: Factors) -> RowWeights:
        """Return the weights: by the number of entries, or by the curvature of the loss at them.

        The ridge counts as further entries.
        """
        if problem.is_squared:
            return cls(tuple(_by_counts(problem, mode) for mode in range(problem.order)))
        margins, rows = problem.deviance.margins(factors), []
        for mode, sums in enumerate(margins):
            mean = sum_people(problem, sums.sum(-1, keepdim=True), mode) / problem.shape[mode]
            more = problem.ridge * problem.shape[problem.mode] / problem.shape[mode]
            own = _with_side(problem, mode, (sums + more) / mean)
            rows.append(own.clamp_min(LEAST_WEIGHT).unsqueeze(-1))
        level = sum_people(problem, margins[0].sum(-1), 0) / problem.count
        return cls(tuple(rows), level)

    def take(self, members: Tensor) -> RowWeights:
        """Return the weights of some members of a batch."""
        if self.level is None:
            return self
        rows = tuple(None if own is None else own[members] for own in self.rows)
        return RowWeights(rows, self.level[members])

    def grams(self, problem: Problem, factors: Factors) -> list[Tensor]:
        """Return the Gram matrices of the factors, with their rows weighted."""
        if self.level is None:
            found = [gram(factor) for factor in factors]
        else:
            pairs = zip(factors, self.rows, strict=True)
            found = [gram(f if own is None else f * own.sqrt()) for f, own in pairs]
        return [sum_people(problem, own, mode) for mode, own in enumerate(found)]


def _by_counts(problem: Problem, mode: int) -> Tensor | None:
    """Return the entries of each row of a mode over their mean, shape (n, 1); None if all are 1."""
    counts = problem.observations.counts(mode).double()
    more = problem.ridge * problem.shape[problem.mode] / problem.shape[mode]
    mean = sum_people(problem, counts.sum(), mode) / problem.shape[mode]
    weights = _with_side(problem, mode, (counts + more) / mean).clamp_min(LEAST_WEIGHT)
    return None if bool((weights == 1).all()) else weights.to(problem.prototype).unsqueeze(-1)


def _with_side(problem: Problem, mode: int, weights: Tensor) -> Tensor:
    """Return weights of rows, shape (..., n), with the entries of side information."""
    if problem.side is None or problem.table is None or mode != problem.mode:
        return weights
    known, weight = problem.table.counts.to(weights), problem.side.weight
    return (weights + weight * known / known.mean()) / (1 + weight)


@dataclass(frozen=True, eq=False)
class Part:
    """The curvature in one factor, in coordinates in which it is diagonal.

    Attributes:
        basis: The map ``T`` to these coordinates, shape (batch, rank, rank): a gradient becomes
            ``g T``, and a step ``d T^-T``.
        curvature: Curvature of each coordinate of each row, shape (batch, n or 1, rank).
        mixing: The same for changes that mix the columns; None without a penalty.
        mean: The same for a shift of all rows, shape (batch, 1, rank); None without a penalty.
        span: Orthonormal columns that span the centered factor, shape (batch, n, rank).
        team: All processes that have some of the rows.
    """

    basis: Tensor
    curvature: Tensor
    mixing: Tensor | None = None
    mean: Tensor | None = None
    span: Tensor | None = None
    team: Team = ALONE

    def solve(self, rows: Tensor) -> Tensor:
        """Return the curvature's inverse times rows of shape (batch, n, rank)."""
        rows = rows @ self.basis
        if self.mean is None or self.mixing is None or self.span is None:
            return rows / self.curvature @ self.basis.mT
        mean, mixed = self._along(rows)[0]
        rest = rows - mean - self.span @ mixed
        if self.team.is_alone:  # of rounding errors; those of a mean are not worth a message
            rest = rest - rest.mean(-2, keepdim=True)
        (rest,) = self._outside(rest / self.curvature)
        return (rest + self.span @ (mixed / self.mixing) + mean / self.mean) @ self.basis.mT

    def estimate(self, step: Tensor, change: Tensor, before: Tensor) -> Tensor:
        """Return the estimated curvature of the penalty after a step, shape (batch,).

        Args:
            step: The step of the factor, shape (batch, n, rank).
            change: The change of the penalty's gradient.
            before: The estimate before the step.
        """
        moved, changed = self._outside(
            torch.linalg.solve(self.basis.mT, step, left=False), change @ self.basis
        )
        squares = [rows.square().sum((-2, -1)) for rows in (moved, changed)]
        of_step, of_change = self.team.sums(squares)
        ratio = of_change.sqrt() / of_step.sqrt()
        found = before ** (1 - LAST) * ratio**LAST
        return torch.where(torch.isfinite(found) & (found > 0), found, before)

    def _outside(self, *several: Tensor) -> list[Tensor]:
        """Return rows without their mean and their part along the span."""
        assert self.span is not None
        found = []
        for rows, (mean, along) in zip(several, self._along(*several), strict=True):
            rest = rows - self.span @ along
            # The span is centered, so the mean of the rest is that of the rows, to rounding.
            found.append(rest - (rest.mean(-2, keepdim=True) if self.team.is_alone else mean))
        return found

    def _along(self, *several: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the means of rows and their parts along the span, by one message."""
        assert self.span is not None
        along = [self.span.mT @ rows for rows in several]
        if self.team.is_alone:
            means = [rows.mean(-2, keepdim=True) for rows in several]
            return list(zip(means, along, strict=True))
        people = torch.tensor([several[0].shape[-2]], dtype=torch.float64, device=along[0].device)
        sums = [rows.sum(-2, keepdim=True) for rows in several]
        *found, people = self.team.sums([*sums, *along, people])
        count = int(people)
        return [(total / count, found[len(sums) + i]) for i, total in enumerate(found[: len(sums)])]


def preconditioner(
    problem: Problem,
    factors: Factors,
    curvature: Mapping[int, Tensor],
    weights: RowWeights,
) -> tuple[Part, ...]:
    """Return the curvature in every factor.

    That of the loss in a row is ``2 G / |X|``, with ``G`` the entrywise product of the other Gram
    matrices. If entries are missing, ``G`` is multiplied by the row's share of observed entries;
    and for a loss that is no squared error, by its share of the curvature.
    All of it changes with the scale of the columns as the factors do, so steps do not depend on
    which factor carries the scale.

    Args:
        problem: The problem.
        factors: The parameters, each (batch, size, rank).
        curvature: That of the penalty of each mode with one, when a standardized row moves.
        weights: The share of each row in the curvature of the loss.
    """
    parameters, factors = factors, to_factors(factors, problem.structure)
    grams, parts = weights.grams(problem, factors), []
    unit = 2 / prod(problem.shape)
    level = unit if weights.level is None else unit * weights.level[:, None, None]
    # A structured second factor has parts of its own.
    for mode, factor in enumerate(factors if problem.structure is None else factors[:1]):
        loss = cross_gram(grams, mode) * level
        if problem.table is not None and mode == problem.mode:
            loss = loss + problem.table.mean_gram(factor).to(loss) * (2 / problem.count)
        parts.append(_part(problem, mode, factor, loss, curvature, weights.rows[mode]))
    if problem.structure is not None:
        parts += _structured_parts(problem, problem.structure, parameters, curvature, level)
    return tuple(parts)


def _part(
    problem: Problem,
    mode: int,
    factor: Tensor,
    loss: Tensor,
    curvature: Mapping[int, Tensor],
    weights: Tensor | None = None,
) -> Part:
    """Return the curvature in the rows of a mode, with that of its penalty.

    Args:
        problem: The problem.
        mode: The mode.
        factor: Its rows, shape (batch, n, rank).
        loss: The curvature of the loss in a row, shape (batch, rank, rank).
        curvature: That of the penalty of each mode with one.
        weights: The share of each row in the curvature of the loss; None if all are 1.
    """
    bound = problem.bound_by_mode.get(mode)
    basis = bound.basis(factor) if isinstance(bound, BoundInvariant) else _scales(loss)
    basis, values = _diagonalized(basis, loss)
    rows = values if weights is None else weights * values
    if bound is None:
        return Part(basis, rows)
    more = STIFFNESS * curvature[mode][:, None, None]
    team = problem.team if mode == problem.mode else ALONE
    return Part(basis, rows + more, values + MIXING * more, values, _span(factor, team), team)


def _structured_parts(
    problem: Problem,
    structure: Multilinear,
    parameters: Factors,
    curvature: Mapping[int, Tensor],
    level: Tensor | float,
) -> list[Part]:
    """Return the curvature in the bases and in the coordinates of a second factor.

    In a basis, ``G`` is that of the coordinates of all else. In the coordinates, bases count as
    orthogonal.

    Args:
        problem: The problem.
        structure: The set of its second factor.
        parameters: Each (batch, size, rank).
        curvature: That of the penalty of each mode with one.
        level: What is multiplied with ``G``.
    """
    rows, *bases, core = parameters
    grams, wide, parts = [gram(basis) for basis in bases], core.unflatten(1, structure.ranks), []
    for number, basis in enumerate(bases):
        other = multiply(wide, grams, skip=number) @ _wide(gram(rows), wide)
        own, other = (part.movedim(1 + number, 1).flatten(2) for part in (wide, other))
        loss = level * own @ other.mT
        parts.append(_part(problem, mode_of_basis(number), basis, loss, curvature))
    loss = level * gram(rows)
    basis, values = _diagonalized(_scales(loss), loss)
    weights = khatri_rao([own.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) for own in grams])
    return [*parts, Part(basis, values * weights)]


def _wide(matrix: Tensor, tensor: Tensor) -> Tensor:
    """Return matrices of a batch that multiply the last mode of tensors."""
    return matrix.reshape(len(matrix), *[1] * (tensor.ndim - 3), *matrix.shape[1:])


def _scales(loss: Tensor) -> Tensor:
    """Return the basis in which the curvature has a diagonal of ones."""
    diagonal = loss.diagonal(dim1=-2, dim2=-1)
    safe = torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal))
    return torch.diag_embed(safe.rsqrt())


def _diagonalized(basis: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """Return a basis in which the curvature is diagonal, and its diagonal, damped."""
    values, vectors = torch.linalg.eigh(basis @ loss @ basis.mT)
    values = values.clamp_min(0).unsqueeze(-2)
    return basis.mT @ vectors, values + DAMPING * values.mean(-1, keepdim=True)


def _span(factor: Tensor, team: Team) -> Tensor:
    """Return orthonormal columns that span the centered factor; zero ones beyond its rank.

    From the Gram matrix of standardized columns: a QR decomposition of a million rows takes
    seconds on a GPU.
    """
    standard = Standardized.of(factor, team)
    columns = standard.columns
    values, vectors = torch.linalg.eigh(standard.gram)
    largest = values[..., -1:]
    kept = values > RIDGE * largest
    scale = torch.where(kept, values, torch.inf).rsqrt()
    found: Tensor = (columns @ (vectors * scale.unsqueeze(-2))).to(factor.dtype)
    return found
