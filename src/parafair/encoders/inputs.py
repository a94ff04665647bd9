"""Inputs of a learned encoder: what it sees of a person's entries, in units of about 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import squared_block
from parafair.algebra.observed import Observations
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import one_of
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Encoder
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.unfolding import unfold
from parafair.solvers.problem import Problem
from parafair.solvers.ridge import ridge_diagonal

# Principal components that a learned encoder sees, at most; and people for each of them: with
# fewer people, an encoder could learn their rows by heart.
MOST_COMPONENTS, PEOPLE_PER_COMPONENT = 256, 20
# Components with less than this share of the largest deviation are not scaled up to size 1, and
# those with less than the second are rounding error.
SMALL, TINY = 0.3, 1e-6
# Subspace iterations, and directions beside those that are wanted.
POWERS, SPARE = 4, 10
# Directions of the shares of entries, for each mode, at most; fainter ones, as a share of the
# largest, are left out.
MOST_PATTERNS, FAINT = 32, 0.01


@dataclass(frozen=True, eq=False)
class PositionEncoder:
    """Least-squares rows, and which entries are there, standardized: inputs from incomplete data.

    Which entries a person has may say more of the group than their values. An encoder can only
    hide what it sees, so it sees the number of entries and, for each other mode, the share of the
    person's entries at each label, along the principal directions of these shares.

    Attributes:
        mode: The mode of the people.
        others: Factors of all other modes, in order, of a plain decomposition.
        ridge: The ridge of the fit.
        loss: Its loss.
        mean: Means over the training people, shape (inputs,).
        deviation: Standard deviations, shape (inputs,).
        directions: Those of the shares, shape (size, components) for each other mode; none in
            models of earlier versions.
    """

    mode: int
    others: tuple[Tensor, ...]
    ridge: float
    loss: str
    mean: Tensor
    deviation: Tensor
    directions: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, problem: Problem, factors: Factors) -> PositionEncoder:
        """Return the encoder of a plain decomposition; its training people have deviation 1."""
        mode, zero = problem.mode, factors[0].new_zeros(())
        others = tuple(factor for other, factor in enumerate(factors) if other != mode)
        patterns: tuple[Tensor, ...] = ()
        if not problem.data.zeros_count:  # whose lists may have more or fewer of them
            patterns = tuple(
                pattern_directions(problem.data, mode, other).to(factors[0])
                for other in range(problem.data.order)
                if other != mode
            )
        first = cls(mode, others, problem.ridge, problem.loss.name, zero, zero + 1, patterns)
        raw = first.encode(problem.data)
        deviation = raw.std(0, correction=0)
        deviation = deviation.where(deviation > 0, torch.ones_like(deviation))
        own, *shares = deviation.split([len(others[0].mT) + 1, *(len(p.mT) for p in patterns)])
        shares = [each.clamp_min(SMALL * float(each.max())) for each in shares if len(each)]
        return replace(first, mean=raw.mean(0), deviation=torch.cat([own, *shares]))

    def encode(self, data: TensorData) -> Tensor:
        """Return the inputs, shape (people, inputs)."""
        factors = [factor.to(data.values).unsqueeze(0) for factor in self.others]
        nobody = factors[0].new_zeros(1, data.shape[self.mode], factors[0].shape[-1])
        factors.insert(self.mode, nobody)
        sums = data.observations.sums(factors)
        block = squared_block(
            sums.target(self.mode),
            sums.gram(self.mode),
            norm_squared=0.0,
            entries=1,
            ridge=ridge_diagonal(factors, self.mode, self.mode, self.ridge),
        )
        rows = block.minimizer(QuadraticForm.zero(nobody))[0]
        counts = data.observations.counts(self.mode).to(rows).log1p()
        others = (other for other in range(data.order) if other != self.mode)
        patterns = (
            (Shares.of(data, self.mode, other) @ own.to(rows).double()).to(rows)
            for other, own in zip(others, self.directions, strict=bool(self.directions))
        )
        found = torch.column_stack([rows, counts, *patterns])
        return (found - self.mean.to(found)) / self.deviation.to(found)

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise unless it belongs to a model of this shape and has so many inputs."""
        sizes = (*shape[: self.mode], *shape[self.mode + 1 :])
        seen = rank - 1 - sum(own.shape[-1] for own in self.directions)
        directions = [len(own) for own in self.directions]
        if directions and directions != list(sizes):
            raise ValueError(f"its directions do not belong to a model of shape {shape}")
        if [factor.shape for factor in self.others] != [(size, seen) for size in sizes]:
            raise ValueError(f"its factors do not belong to a model of shape {shape}")
        if self.mean.shape != (rank,) or self.deviation.shape != (rank,):
            raise ValueError(f"its means and deviations are not those of {rank} inputs")
        one_of("loss", self.loss, ("squared",))


class Matrix(Protocol):
    """What `principal_directions` needs of a matrix, which has double precision."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def device(self) -> torch.device:
        """The device of its numbers."""

    @property
    def mT(self) -> Matrix:  # noqa: N802, the name that tensors have for it
        """The transposed matrix."""

    def __matmul__(self, right: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Shares:
    """The share of each person's entries at each label of another mode, a matrix of products.

    Attributes:
        ones: A one for each entry.
        people: The mode of the people.
        mode: The mode of the rows.
        other: That of the columns; one of both is the mode of the people.
    """

    ones: Observations
    people: int
    mode: int
    other: int

    @classmethod
    def of(cls, data: TensorData, mode: int, other: int) -> Shares:
        """Return the shares of people of one mode at the labels of another.

        Args:
            data: The data; some entries are missing.
            mode: The mode of the people.
            other: The other mode.
        """
        values = data.values.double()
        ones = values.where(values.isnan(), torch.ones_like(values))
        return cls(replace(data, values=ones).observations, mode, mode, other)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return (self.ones.shape[self.mode], self.ones.shape[self.other])

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return self.ones.values.device

    @property
    def mT(self) -> Shares:  # noqa: N802, the name that tensors have for it
        """The transposed matrix."""
        return replace(self, mode=self.other, other=self.mode)

    def __matmul__(self, right: Tensor) -> Tensor:
        """Return the product with columns of double precision."""
        weights = (1 / self.ones.counts(self.people).clamp_min(1).to(right)).unsqueeze(-1)
        factors = [right.new_ones(1, size, right.shape[-1]) for size in self.ones.shape]
        factors[self.other] = (right * weights if self.other == self.people else right)[None]
        found = self.ones.sums(factors).target(self.mode)[0]
        return found * weights if self.mode == self.people else found


def pattern_directions(data: TensorData, mode: int, other: int) -> Tensor:
    """Return principal directions of `Shares`, shape (size, components).

    Shares are not centered: that would need a dense matrix.
    """
    shares = Shares.of(data, mode, other)
    people, size = shares.shape
    count = max(1, min(MOST_PATTERNS, people // PEOPLE_PER_COMPONENT, size))
    directions, sizes = principal_directions(shares, count)
    return directions[:, sizes > FAINT * sizes[0]]


def make_inputs(problem: Problem, factors: Factors) -> Encoder:
    """Return the encoder that gives a learned encoder its inputs.

    These are principal components of complete entries, and least-squares rows of incomplete ones.

    Args:
        problem: The problem.
        factors: A plain decomposition of it: one factor (size, rank) per mode.
    """
    data, mode = problem.data, problem.mode
    present = data.observed_per(mode) > 0
    if not present.all():
        data = data.take(mode, present)
    if data.observed < prod(data.shape):
        return PositionEncoder.of(problem, factors)
    entries = unfold(data, mode).double()
    people, rank = len(entries), factors[0].shape[-1]
    count = min(MOST_COMPONENTS, max(2 * rank, people // PEOPLE_PER_COMPONENT), *entries.shape)
    mean = entries.mean(0)
    directions, sizes = principal_directions(entries - mean, count)
    if not sizes[0] > 0:
        raise ValueError(
            "X has the same entries for everybody, so an encoder has nothing to learn from; pass "
            "people who differ, or leave encoder out"
        )
    kept = sizes > TINY * sizes[0]
    deviation = sizes[kept] / people**0.5
    scale = deviation.clamp_min(SMALL * float(deviation.max()))
    return LinearEncoder(mode, mean, directions[:, kept] / scale, mean.new_zeros(len(scale)))


def principal_directions(matrix: Tensor | Matrix, count: int) -> tuple[Tensor, Tensor]:
    """Return the first right singular vectors, shape (columns, count), and singular values.

    Subspace iteration from a fixed random start: exact if `count` is the number of columns, and
    otherwise close for values that are much larger than those left out.
    """
    generator = torch.Generator("cpu").manual_seed(0)
    wide = min(count + SPARE, *matrix.shape)
    drawn = torch.randn(
        matrix.shape[1], wide, generator=generator, dtype=torch.float64, device="cpu"
    )
    basis = torch.linalg.qr(drawn.to(matrix.device))[0]
    for _ in range(POWERS):
        basis = torch.linalg.qr(matrix.mT @ (matrix @ basis))[0]
    _, sizes, within = torch.linalg.svd(matrix @ basis, full_matrices=False)
    return (basis @ within.mT)[:, :count], sizes[:count]
