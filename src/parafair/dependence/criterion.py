"""The invariant criterion: dependence between rows and sensitive features, in any units.

Rows are whitened and their columns standardized before a kernel is applied. So rescaling or
shifting columns changes nothing, and mixing them only rotates whitened rows. Kernels cover
distances that differ by a factor of 64, from means alone to near neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from parafair.arguments import whole_number
from parafair.data.randomness import RandomState, as_random
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.chunks import CHUNK_PEOPLE, chunk_count, parts_of_chunks, stratify
from parafair.dependence.directions import Directions
from parafair.dependence.scales import (
    column_levels,
    compress,
    compression_slope,
    pair_levels,
    robust_levels,
    row_levels,
)
from parafair.dependence.score import Scorer, Scorers
from parafair.dependence.views import column_sums, compare_columns, compare_rows, row_sums
from parafair.dependence.waves import MOST_PAIRED
from parafair.dependence.weights import Alike, Weights, feature_factors
from parafair.dependence.whitening import RowViews, Standardized
from parafair.team import ALONE, Team
from parafair.tiles import in_smaller_tiles

# Shares of whole rows, single columns and pairs of columns in the criterion.
SHARES = (0.4, 0.3, 0.3)

# The unit of the criterion is its value for the features, in at most this many columns.
REFERENCE_COLUMNS = 4

# What a criterion is given; the rest follows.
SETTINGS = ("sensitive", "prototype", "chunk_size", "deal", "rotation_free", "own", "team")

# From so many people on, those of a single chunk who are alike follow each other, so that they
# are compared in pieces. With fewer, more operations take longer than fewer multiplications.
LEAST_SORTED = 1000

# Permutations of a test that are computed together.
PERMUTED_AT_ONCE = 20


@dataclass(frozen=True)
class PermutationTest:
    """Whether a dependence differs from chance, in either direction.

    Attributes:
        statistic: The criterion of the original order.
        p_value: The share of permutations, including the identity, whose criterion is at least as
            large. The criterion grows in both directions: if people are near others of their group,
            and if they are matched across groups.
        null_mean: Mean of the criterion over the permutations: its level under independence.
        permutations: Number of permutations.
    """

    statistic: float
    p_value: float
    null_mean: float
    permutations: int

    @classmethod
    def of(cls, values: Tensor) -> PermutationTest:
        """Return the test whose statistics are these: the original order, then permutations."""
        # Rounding must not decide ties, such as a permutation that changes nothing.
        tie = torch.finfo(values.dtype).eps ** 0.5 * values[0].abs()
        above = 1 + int((values[1:] >= values[0] - tie).sum())
        return cls(float(values[0]), above / len(values), float(values[1:].mean()), len(values) - 1)


@dataclass(frozen=True, eq=False)
class Criterion:
    """Dependence between rows and sensitive features: 0 at chance, 1 for the features themselves.

    For every kernel k of a view of the rows there is a statistic ``U = sum over i != j of
    w_ij k(x_i, x_j)``, with weights w of the features (`Weights`). It is the unbiased HSIC, and the
    mean margin of a leave-one-out vote of neighbors: positive if people are near others of their
    group, negative if they are matched with people of other groups, and on average zero over all
    permutations. The criterion is the weighted mean over all kernels of
    ``b (sqrt((U / b)**2 + 1) - 1) / size``. Here ``b`` is BEND standard deviations of U over
    permutations of normal rows, and ``size`` is U if the kernel were that of the feature. So its
    minimum is at chance, and there is nothing to gain beyond. It is divided by its value for an
    embedding that is the features.

    Views are whole whitened rows, in the usual and in robust units (SHARES[0]), single columns
    (SHARES[1]: the components and the whitened columns) and pairs of components and of whitened
    columns (SHARES[2]; of the first 12 if there are more).

    Attributes:
        sensitive: The features of all people.
        prototype: A tensor with the dtype and device to use.
        chunk_size: Chunk size for pairs of whole rows; more people are split into chunks.
        deal: Which people are in a chunk together; see `stratify`.
        rotation_free: Whether whole whitened rows in the usual units and their `Directions`, in
            equal parts, are the only views. The criterion then does not change when columns are
            mixed by any invertible matrix, as is right for embeddings whose columns have no meaning
            of their own.
        own: Positions of the people whose rows this process has, in ascending order: those of
            whole parts, see `parts`. None for everybody.
        team: All processes, which have the rows of everybody together.
    """

    sensitive: SensitiveFeatures
    prototype: Tensor
    chunk_size: int = CHUNK_PEOPLE
    deal: int = 0
    rotation_free: bool = False
    own: Tensor | None = None
    team: Team = ALONE

    @cached_property
    def chunks(self) -> Tensor:
        """Positions of all people in each chunk, shape (chunks, people).

        Chunks differ in size by at most one person. The last place of a smaller chunk repeats its
        first person, without weight. Within chunks of many, people who are alike follow each other.
        """
        count = chunk_count(self.sensitive, self.chunk_size)
        chunks = stratify(self.sensitive, count, self.deal)
        if self.alike is not None and self._are_sorted(len(chunks)):
            back = self.alike.back
            chunks = tuple(part[back[part].argsort()] for part in chunks)
        size = max(map(len, chunks))
        filled = [torch.cat([part, part[: size - len(part)]]) for part in chunks]
        return torch.stack(filled)

    def _are_sorted(self, chunks: int) -> bool:
        """Tell whether people who are alike follow each other; of few, the order is their own."""
        return chunks > 1 or len(self.sensitive) >= LEAST_SORTED

    @property
    def parts(self) -> Tensor:
        """The part of each person. With other chunks, people are in the same parts."""
        part = torch.from_numpy(parts_of_chunks(len(self.chunks)))
        found = torch.empty(len(self.sensitive), dtype=torch.long, device="cpu")
        return found.scatter_(
            0, self.chunks.flatten(), part.repeat_interleave(self.chunks.shape[1])
        )

    def of_people(self, own: Tensor, team: Team) -> Criterion:
        """Return the criterion of a process that has the rows of some people.

        Args:
            own: Their positions, in ascending order; all people of some parts.
            team: All processes.
        """
        return replace(self, own=own, team=team)

    @cached_property
    def _mine(self) -> slice:
        """The chunks of this process."""
        if self.own is None:
            return slice(None)
        mine = torch.isin(self.chunks[:, 0], self.own).nonzero().flatten()
        return slice(int(mine[0]), int(mine[-1]) + 1)

    @cached_property
    def places(self) -> Tensor:
        """Rows of the people in each chunk of this process, shape (chunks, people)."""
        places = self.chunks[self._mine]
        if self.own is not None:
            places = torch.searchsorted(self.own, places)
        return places.to(self.prototype.device)

    def _of_own(self, rows: Tensor) -> Tensor:
        """Return the rows of the people of this process, of those of all."""
        return rows if self.own is None else rows[self.own.to(rows.device)]

    def with_deal(self, deal: int) -> Criterion:
        """Return the criterion with chunks of other people; each number is another choice.

        People with equal features take each other's places, so weights and scores stay as they are.
        The unit stays in any case.
        """
        other = replace(self, deal=deal)
        if self.alike is None:
            other.__dict__["reference"] = self.reference
            return other
        # Computed now, so that both share them.
        self.chunks, self.runs, self.row_weights, self.column_weights, self.reference  # noqa: B018
        kept = {k: v for k, v in self.__dict__.items() if k not in (*SETTINGS, "places")}
        other.__dict__.update(kept)
        group = self.parts * len(self.alike.sizes) + self.alike.groups
        drawn = torch.from_numpy(np.random.default_rng(deal).permutation(len(group)))
        taken = torch.empty_like(drawn)
        taken[group.argsort(stable=True)] = drawn[group[drawn].argsort(stable=True)]
        other.__dict__["chunks"] = taken[self.chunks]
        return other

    @cached_property
    def runs(self) -> tuple[tuple[int, ...], ...] | None:
        """How many people who are alike follow each other, in each chunk; None if few do."""
        if self.alike is None or not self._are_sorted(len(self.chunks)):
            return None
        found = []
        for own in self.alike.groups[self.chunks[self._mine]]:
            if len(self.chunks) > 1:
                own[-1] = own[-2]  # may repeat the first person
            found.append(tuple(torch.unique_consecutive(own, return_counts=True)[1].tolist()))
        return tuple(found)

    @cached_property
    def row_weights(self) -> Weights:
        """The weights of pairs of people within each chunk of this process."""
        chunks, size = self.chunks.shape
        present = torch.ones_like(self.chunks, dtype=torch.bool)
        present[:, -1] = torch.arange(chunks, device="cpu") < len(self.sensitive) - chunks * (
            size - 1
        )
        mine = self._mine
        return Weights.of(self._factors, self.chunks[mine], present[mine]).to(self.prototype)

    @cached_property
    def column_weights(self) -> Weights:
        """The weights of all pairs of people, as a single chunk."""
        everybody = torch.arange(len(self.sensitive), device="cpu").unsqueeze(0)
        present = torch.ones_like(everybody, dtype=torch.bool)
        found = Weights.of(self._factors, everybody, present)
        own = replace(found, columns=self._of_own(found.columns[0]).unsqueeze(0))
        return own.to(self.prototype)

    @cached_property
    def alike(self) -> Alike | None:
        """People with equal features, if there are many of them."""
        return Alike.of(self.sensitive)

    @cached_property
    def _alike_here(self) -> Alike | None:
        """Those of them whose rows this process has."""
        if self.alike is None:
            return None
        own = self.alike if self.own is None else self.alike.take(self.own)
        return own.to(self.prototype.device)

    @cached_property
    def _factors(self) -> list[Tensor]:
        return feature_factors(self.sensitive)

    @cached_property
    def _scorers(self) -> dict[int, tuple[Scorer, ...]]:
        return {}

    def scorers(self, rank: int) -> tuple[Scorer, ...]:
        """Return the scorer of each view, for rows of this rank; `Scorers` if there are all."""
        if rank not in self._scorers and self.rotation_free:
            here = len(self.places) / len(self.chunks)
            self._scorers[rank] = (Scorer.of(self.row_weights, row_levels(rank), here / 2),)
        elif rank not in self._scorers:
            shares = SHARES if rank > 1 else (*SHARES[:2], 0.0)  # one column has no pairs
            rows, columns, pairs = (share / sum(shares) for share in shares)
            own, paired = self.column_weights, min(rank, MOST_PAIRED)
            half = rows / 2 * len(self.places) / len(self.chunks)
            self._scorers[rank] = Scorers(
                Scorer.of(self.row_weights, row_levels(rank), half),
                Scorer.of(self.row_weights, robust_levels(rank), half),
                Scorer.of(own, column_levels(), columns / (2 * rank)),
                Scorer.of(own, pair_levels(), pairs / max(1, paired * (paired - 1))),
            )
        return self._scorers[rank]

    @cached_property
    def directions(self) -> Directions:
        """The score of directions, which is part of the criterion if it is `rotation_free`."""
        # The last column of the weights is constant.
        columns = self.column_weights.columns[0, :, :-1]
        return Directions.of(columns, len(self.sensitive), self.team)

    @cached_property
    def reference(self) -> float:
        """The score of the features as an embedding; 1 for so few people that nothing has one."""
        encoded = self.sensitive.encode(prototype=self.prototype).double()
        if encoded.shape[1] > REFERENCE_COLUMNS:
            # Many categories: their leading directions are enough for a unit, and far cheaper.
            vectors, values, _ = torch.linalg.svd(encoded - encoded.mean(0), full_matrices=False)
            encoded = (vectors * values)[:, :REFERENCE_COLUMNS]
        return float(self._score(self._of_own(encoded))[0]) or 1.0

    def value_and_gradient(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the criterion of each member, shape (...), and its gradient in the rows."""
        value, gradient = self._score(rows)
        return value / self.reference, gradient / self.reference

    @in_smaller_tiles
    def _score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the criterion and its gradient, not divided by the reference."""
        if self.rotation_free:
            return self._score_rows(rows)
        views = RowViews(rows.reshape(-1, *rows.shape[-2:]), self.team)
        scorers = self.scorers(rows.shape[-1])
        assert isinstance(scorers, Scorers)
        whitened, robust = self._rows(views)
        usual, for_whitened = compare_rows(whitened, scorers.rows, self.places, self.runs)
        middle, for_robust = compare_rows(robust, scorers.robust, self.places, self.runs)
        value, for_columns = compare_columns(
            self._columns(views),
            scorers.columns,
            scorers.pairs,
            self._alike_here,
            self.team,
            usual + middle,
        )
        for_components, through_robust = for_columns.double().chunk(2, -1)
        through_robust = through_robust + for_robust.double() * compression_slope(views.robust)
        gradient = views.pull_back(for_whitened.double(), through_robust, for_components)
        value = value.reshape(rows.shape[:-2])
        return value.to(rows.dtype), gradient.reshape(rows.shape).to(rows.dtype)

    def _score_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for whole whitened rows and their directions alone."""
        standard = Standardized.of(rows.reshape(-1, *rows.shape[-2:]), self.team)
        whitened = standard.whitened.to(self.prototype.dtype)
        (scorer,) = self.scorers(rows.shape[-1])
        value, slope = compare_rows(whitened, scorer, self.places, self.runs)
        more, toward = self.directions.score(standard.whitened)
        slope = slope.double() + toward / 2
        gradient = standard.pull_back(slope, torch.zeros_like(standard.columns))
        value = (self.team.sum(value) + more / 2).reshape(rows.shape[:-2])
        return value.to(rows.dtype), gradient.reshape(rows.shape).to(rows.dtype)

    def deviations(self, rows: Tensor) -> Tensor:
        """Return ``U / sd`` of all statistics of one embedding, shape (count,).

        Without dependence each is about standard normal; the eigenvalues of `Directions`, if they
        are part of the criterion, have that size.
        """
        columns = self.column_weights.columns[0]
        sums = self._sums(rows, self.row_weights.columns, columns)
        scorers = self.scorers(rows.shape[-1])
        found = [scorer.deviations(part) for scorer, part in zip(scorers, sums, strict=True)]
        if self.rotation_free:
            whitened = Standardized.of(rows.unsqueeze(0)).whitened
            found.append(self.directions.eigenvalues(whitened).to(found[0]))
        return torch.cat([part.flatten() for part in found])

    def permuted(self, rows: Tensor, *, permutations: int, random_state: RandomState) -> Tensor:
        """Return the criterion of the original order and of permutations of the features.

        It is over all pairs of people, as a single chunk.

        Args:
            rows: The embedding, shape (n, rank).
            permutations: Number of permutations.
            random_state: Seed of the permutations.
        """
        whole_number("permutations", permutations)
        if len(self.chunks) > 1:
            whole = replace(self, chunk_size=len(rows))
            return whole.permuted(rows, permutations=permutations, random_state=random_state)
        random = as_random(random_state)
        orders = [torch.arange(len(rows), device="cpu")]
        orders += [torch.from_numpy(random.permutation(len(rows))) for _ in range(permutations)]
        weights, scorers = self.column_weights.columns[0], self.scorers(rows.shape[-1])
        totals = []
        for begin in range(0, len(orders), PERMUTED_AT_ONCE):
            some = torch.stack(orders[begin : begin + PERMUTED_AT_ONCE], 1).to(weights.device)
            shuffled = weights[some].flatten(1)  # (n, orders * r)
            in_chunk = shuffled[self.places[0]].unsqueeze(0)
            total = torch.zeros(some.shape[1], dtype=torch.float64, device="cpu")
            for scorer, sums in zip(scorers, self._sums(rows, in_chunk, shuffled), strict=True):
                apart = sums.unflatten(-1, (some.shape[1], -1)).movedim(-2, 0)
                total += scorer.score(apart)[0].sum(1).double().cpu()
            if self.rotation_free:
                whitened = Standardized.of(rows.unsqueeze(0)).whitened
                parts = [self.directions.take(order).score(whitened)[0] for order in some.mT]
                total += torch.cat(parts).cpu() / 2
            totals.append(total)
        return torch.cat(totals) / self.reference

    @in_smaller_tiles
    def _sums(self, rows: Tensor, for_rows: Tensor, for_columns: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of all views of one embedding, for given columns of weights."""
        if self.rotation_free:
            whitened = Standardized.of(rows.unsqueeze(0)).whitened.to(self.prototype.dtype)
            return (row_sums(whitened, for_rows, self.places),)
        views = RowViews(rows.unsqueeze(0))
        whole = [row_sums(rows, for_rows, self.places) for rows in self._rows(views)]
        return (*whole, *column_sums(self._columns(views), for_columns))

    def _rows(self, views: RowViews) -> tuple[Tensor, Tensor]:
        """Return whitened rows in the usual units, and compressed in robust units."""
        dtype = self.prototype.dtype
        return views.whitened.to(dtype), compress(views.robust).to(dtype)

    def _columns(self, views: RowViews) -> Tensor:
        """Return components, then whitened columns, in robust units, (batch, n, 2 rank)."""
        return torch.cat([views.components, views.robust], -1).to(self.prototype.dtype)
