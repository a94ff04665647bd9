"""Predicted scores at the observed entries, by group: their number, sum and sum of squares.

With ``w`` the product of the other factors' rows at an entry, a predicted score is ``f . w`` for
the row ``f`` of one factor. So the moments of a group, and their gradients, follow from

    h = sum w        and        q = sum (f . w) w        over the group's entries in the row:

``S = sum f . h`` and ``Q = sum f . q``. These are sums of the kind that least squares needs, so no
score is stored. If no entry is missing, they follow from the factors alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, cross_gram, gram, product_of
from parafair.algebra.observed import CompleteObservations, MaskedObservations, Observations
from parafair.algebra.row_grams import RowGrams
from parafair.algebra.shares import sum_others
from parafair.algebra.sparse import SparseObservations
from parafair.algebra.zero_filled import ZeroFilledObservations
from parafair.team import ALONE, Team


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the predicted scores of each group, in double precision.

    Attributes:
        counts: ``N``, the number of entries of each group, shape (groups,).
        sums: ``S``, the sum of the scores, shape (batch, groups).
        squares: ``Q``, the sum of their squares, shape (batch, groups).
    """

    counts: Tensor
    sums: Tensor
    squares: Tensor

    @property
    def means(self) -> Tensor:
        """Mean score of each group, shape (batch, groups)."""
        return self.sums / self.counts

    @property
    def pooled(self) -> Moments:
        """The moments of all groups together, as one group."""
        return Moments(
            self.counts.sum(0, keepdim=True),
            self.sums.sum(-1, keepdim=True),
            self.squares.sum(-1, keepdim=True),
        )


class Part(Protocol):
    """The entries of one group. Factors are (batch, size, rank); the people are the group's."""

    @property
    def count(self) -> int:
        """Number of entries."""

    def slopes(self, factors: Factors) -> tuple[list[Tensor], list[Tensor]]:
        """Return ``h`` and ``q`` of every mode; shapes that broadcast to those of the factors."""

    def block(self, factors: Factors, mode: int) -> tuple[Tensor, Tensor | RowGrams]:
        """Return ``h`` and ``G`` of one mode; they do not depend on its factor."""


@dataclass(frozen=True, eq=False)
class CompletePart:
    """All entries of a group; the sums follow from those of the factors' columns."""

    count: int

    def slopes(self, factors: Factors) -> tuple[list[Tensor], list[Tensor]]:
        """Return ``h`` and ``q`` of every mode."""
        totals = [factor.sum(-2, keepdim=True) for factor in factors]
        grams = [gram(factor) for factor in factors]
        h = [cross_gram(totals, mode) for mode in range(len(factors))]
        return h, [factor @ cross_gram(grams, mode) for mode, factor in enumerate(factors)]

    def block(self, factors: Factors, mode: int) -> tuple[Tensor, Tensor]:
        """Return ``h``, shape (batch, 1, rank), and ``G``, which all rows share."""
        others = [factor for other, factor in enumerate(factors) if other != mode]
        totals = [factor.sum(-2, keepdim=True) for factor in others]
        return product_of(totals), product_of([gram(factor) for factor in others])


@dataclass(frozen=True, eq=False)
class ObservedPart:
    """The observed entries of a group.

    Attributes:
        zeros: The entries, with the value 0.
        constants: The same with the value `size`.
        size: About the size of a score, so that differences of sums lose no digits.
    """

    zeros: Observations
    constants: Observations
    size: float

    @property
    def count(self) -> int:
        """Number of entries."""
        return self.zeros.values.numel()

    def slopes(self, factors: Factors) -> tuple[list[Tensor], list[Tensor]]:
        """Return ``h`` and ``q`` of every mode, from sums of O(rank) per entry."""
        q = self.zeros.error_and_slopes(factors)[1]
        less = self.constants.error_and_slopes(factors)[1]
        return [(a - b) / self.size for a, b in zip(q, less, strict=True)], q

    def block(self, factors: Factors, mode: int) -> tuple[Tensor, Tensor | RowGrams]:
        """Return ``h``, shape (batch, n, rank), and one ``G`` for each row."""
        sums = self.constants.sums(factors)
        return sums.target(mode) / self.size, sums.gram(mode)


@dataclass(frozen=True, eq=False)
class RestPart:
    """All entries of a group but some missing ones."""

    complete: CompletePart
    missing: ObservedPart

    @property
    def count(self) -> int:
        """Number of entries."""
        return self.complete.count - self.missing.count

    def slopes(self, factors: Factors) -> tuple[list[Tensor], list[Tensor]]:
        """Return ``h`` and ``q`` of every mode."""
        every, less = self.complete.slopes(factors), self.missing.slopes(factors)
        h, q = (
            [a - b for a, b in zip(*both, strict=True)] for both in zip(every, less, strict=True)
        )
        return h, q

    def block(self, factors: Factors, mode: int) -> tuple[Tensor, Tensor | RowGrams]:
        """Return ``h``, shape (batch, n, rank), and one ``G`` for each row."""
        h, shared = self.complete.block(factors, mode)
        less, grams = self.missing.block(factors, mode)
        assert isinstance(grams, RowGrams)
        first, second = torch.triu_indices(grams.rank, grams.rank, device=shared.device)
        triangle = shared[:, None, first, second]
        return h - less, grams.changed(lambda part: triangle - part)


@dataclass(frozen=True, eq=False)
class GroupScores:
    """Predicted scores at the observed entries of several groups of people.

    Attributes:
        mode: The mode of the people.
        people: The people of each group in this process; it may have none of some groups.
        parts: Their entries.
        constants: Columns of each mode that follow those of the factor and are not fitted, such as
            offsets, shape (size, k).
        team: All processes, over whose people moments and gradients are.
    """

    mode: int
    people: tuple[Tensor, ...]
    parts: tuple[Part, ...]
    constants: tuple[Tensor, ...]
    team: Team = ALONE

    @classmethod
    def of(
        cls,
        entries: Observations,
        mode: int,
        people: Sequence[Tensor],
        constants: Sequence[Tensor],
        team: Team = ALONE,
    ) -> GroupScores:
        """Return the scores of groups of people.

        Args:
            entries: The observed entries of the people of this process.
            mode: The mode of the people.
            people: The positions of the people of each group among them.
            constants: As in the class.
            team: All processes.
        """
        values = entries.values
        norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
        size = norm / max(1, values.numel()) ** 0.5 or 1.0
        parts = tuple(_part(entries, mode, rows, size) for rows in people)
        return cls(mode, tuple(people), parts, tuple(constants), team)

    @cached_property
    def counts(self) -> Tensor:
        """Number of entries of each group, in double precision, shape (groups,)."""
        counts = [part.count for part in self.parts]
        own = torch.tensor(counts, dtype=torch.float64, device=self.people[0].device)
        return self.team.sum(own)

    def moments_and_slopes(self, factors: Factors) -> tuple[Moments, list[Slopes]]:
        """Return the moments of all groups, and the slopes of each.

        Args:
            factors: Each (batch, size, rank).
        """
        wide, slopes = self._wide(factors), []
        sums, squares = [], []
        for people, part in zip(self.people, self.parts, strict=True):
            own = self._of_group(wide, people)
            h, q = part.slopes(own)
            sums.append(_inner(own[self.mode], h[self.mode]))
            squares.append(_inner(own[self.mode], q[self.mode]))
            slopes.append(Slopes(people, h, q))
        both = self.team.sums([torch.stack(sums, -1), torch.stack(squares, -1)])
        return Moments(self.counts, *both), slopes

    def gradients(
        self, factors: Factors, slopes: Sequence[Slopes], of_sums: Tensor, of_squares: Tensor
    ) -> list[Tensor]:
        """Return the gradient of a function of the moments in every factor.

        Args:
            factors: Each (batch, size, rank).
            slopes: Those of each group at these factors.
            of_sums: The derivatives of the function in ``S``, shape (batch, groups).
            of_squares: Those in ``Q``.
        """
        found = [torch.zeros_like(factor) for factor in factors]
        for group, own in enumerate(slopes):
            a, b = of_sums[:, group, None, None], of_squares[:, group, None, None]
            for mode, (factor, h, q) in enumerate(zip(factors, own.h, own.q, strict=True)):
                slope = (a * h + 2 * b * q)[..., : factor.shape[-1]].to(factor)
                if mode == self.mode:
                    found[mode].index_add_(1, own.people, slope)
                else:
                    found[mode] += slope
        return sum_others(self.team, self.mode, found)

    def block(self, factors: Factors, mode: int) -> BlockScores:
        """Return the scores as a function of the factor of one mode; of a process alone."""
        wide = self._wide(factors)
        found = [
            (people, *part.block(self._of_group(wide, people), mode))
            for people, part in zip(self.people, self.parts, strict=True)
        ]
        return BlockScores(
            people=tuple(people for people, _, _ in found) if mode == self.mode else None,
            h=tuple(h for _, h, _ in found),
            grams=tuple(gram for _, _, gram in found),
            constants=self.constants[mode],
            counts=self.counts,
        )

    def _wide(self, factors: Factors) -> list[Tensor]:
        """Return the factors with their constant columns."""
        return [_beside(f, columns) for f, columns in zip(factors, self.constants, strict=True)]

    def _of_group(self, factors: Factors, people: Tensor) -> list[Tensor]:
        """Return the factors with the rows of one group."""
        own = list(factors)
        own[self.mode] = own[self.mode].index_select(1, people)
        return own


@dataclass(frozen=True, eq=False)
class Slopes:
    """``h`` and ``q`` of one group, for every mode; see the module."""

    people: Tensor
    h: list[Tensor]
    q: list[Tensor]


@dataclass(frozen=True, eq=False)
class BlockScores:
    """Predicted scores as a function of one factor, with the others fixed.

    Attributes:
        people: The rows of each group, for the factor of the people; None if groups share rows.
        h: For each group.
        grams: ``G`` of each group.
        constants: Columns that follow those of the factor, shape (size, k).
        counts: Number of entries of each group, shape (groups,).
    """

    people: tuple[Tensor, ...] | None
    h: tuple[Tensor, ...]
    grams: tuple[Tensor | RowGrams, ...]
    constants: Tensor
    counts: Tensor

    def moments(self, factor: Tensor) -> Moments:
        """Return the moments at a factor of shape (batch, n, rank)."""
        wide = _beside(factor, self.constants)
        rows = [self._rows(wide, group) for group in range(len(self.h))]
        sums = [_inner(own, h) for own, h in zip(rows, self.h, strict=True)]
        squares = [
            _inner(own, _products(gram, own)) for own, gram in zip(rows, self.grams, strict=True)
        ]
        return Moments(self.counts, torch.stack(sums, -1), torch.stack(squares, -1))

    def gradient(self, factor: Tensor, of_sums: Tensor, of_squares: Tensor) -> Tensor:
        """Return the gradient of a function of the moments, shape (batch, n, rank)."""
        wide, found = _beside(factor, self.constants), torch.zeros_like(factor)
        for group, (h, grams) in enumerate(zip(self.h, self.grams, strict=True)):
            own = _products(grams, self._rows(wide, group))
            slope = of_sums[:, group, None, None] * h + 2 * of_squares[:, group, None, None] * own
            self._add(found, group, slope[..., : factor.shape[-1]].to(factor))
        return found

    def slopes_of_sums(self, factor: Tensor) -> Tensor:
        """Return the gradients of ``S``, shape (batch, groups, n, rank); they are constant."""
        found = []
        for group, h in enumerate(self.h):
            found.append(torch.zeros_like(factor))
            self._add(found[-1], group, h[..., : factor.shape[-1]])
        return torch.stack(found, 1)

    def _rows(self, factor: Tensor, group: int) -> Tensor:
        return factor if self.people is None else factor.index_select(1, self.people[group])

    def _add(self, total: Tensor, group: int, slope: Tensor) -> None:
        """Add a slope in the rows of a group to that of all rows, in place."""
        if self.people is None:
            total += slope
        else:
            rows = self.people[group]
            total.index_add_(1, rows, slope.expand(len(total), len(rows), total.shape[-1]))


def _part(entries: Observations, mode: int, people: Tensor, size: float) -> Part:
    """Return the entries of some people."""
    if isinstance(entries, CompleteObservations) or not len(people):
        return CompletePart(prod(entries.shape) // entries.shape[mode] * len(people))
    if isinstance(entries, MaskedObservations):
        observed = entries.observed.index_select(mode, people)
        filled = observed.to(entries.filled) * size
        none = MaskedObservations(torch.zeros_like(filled), observed)
        return ObservedPart(none, MaskedObservations(filled, observed), size)
    if isinstance(entries, ZeroFilledObservations):
        every = CompletePart(prod(entries.shape) // entries.shape[mode] * len(people))
        if entries.missing is None:
            return every
        missing = _part(entries.missing, mode, people, size)
        assert isinstance(missing, ObservedPart)
        return RestPart(every, missing) if missing.count else every
    assert isinstance(entries, SparseObservations)
    places = torch.full((entries.shape[mode],), -1, dtype=torch.long, device=people.device)
    places[people] = torch.arange(len(people), device=people.device)
    kept = places[entries.indices[mode]] >= 0
    indices = entries.indices[:, kept].clone()
    indices[mode] = places[indices[mode]]
    shape = tuple(len(people) if m == mode else n for m, n in enumerate(entries.shape))
    values = entries.values.new_zeros(indices.shape[1])
    zeros, constants = (SparseObservations(indices, values + x, shape) for x in (0.0, size))
    return ObservedPart(zeros, constants, size)


def _beside(factor: Tensor, columns: Tensor) -> Tensor:
    """Return a factor with more columns, those of every member of the batch."""
    if not columns.shape[-1]:
        return factor
    return torch.cat([factor, columns.to(factor).expand(len(factor), *columns.shape)], -1)


def _products(gram: Tensor | RowGrams, factor: Tensor) -> Tensor:
    """Return ``G f`` for every row."""
    return gram.products(factor) if isinstance(gram, RowGrams) else factor @ gram


def _inner(first: Tensor, second: Tensor) -> Tensor:
    """Return the sum of the products of all entries, in double precision, shape (batch,)."""
    return (first.double() * second.double()).sum((-2, -1))
