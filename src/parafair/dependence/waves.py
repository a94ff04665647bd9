"""Waves: all pairs of people compared in single columns and in pairs of columns, in linear time.

A Gaussian kernel of a compressed column is a sum of products of cosines and sines, so a sum over
all pairs of people is a sum of squares of sums over people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from parafair.algebra.devices import by_device, tile_of
from parafair.dependence import fused_columns
from parafair.dependence.scales import COLUMN_GAMMAS, PAIR_GAMMAS, compress, spectrum
from parafair.dependence.score import Score
from parafair.team import ALONE, Team
from parafair.threads import side_by_side

Found = TypeVar("Found")

# Columns of each half that are compared in pairs: the first ones, because the cost grows with the
# square.
MOST_PAIRED = 12

# People of one product over people on a GPU.
PEOPLE_AT_ONCE = 2048

# Of the products of two columns with each other, half are needed. On a processor they are computed
# in so many strips, if there are at least so many people that small products do not take longer.
STRIPS, LEAST_IN_STRIPS = 4, 1000

# Tiles whose sums are in memory at the same time.
TOGETHER = 16

# Bytes of the waves of a tile.
WAVE_BYTES = {"cpu": 2**25, "cuda": 2**31}


class Phases(NamedTuple):
    """The waves of some people, one row for each wave, so that people follow each other in memory.

    Attributes:
        coarse: Cosines from frequency 0 on, then sines from frequency 1 on, of the frequencies that
            pairs of columns have, shape (batch, columns, 2 coarse - 1, people).
        fine: Cosines, then sines, of all higher frequencies, (batch, columns, 2 fine, people).
    """

    coarse: Tensor
    fine: Tensor


class Waves:
    """Cosines and sines of compressed columns, their sums over people, and the derivatives.

    Args:
        columns: As in `compare_columns`.
        weights: The columns ``u``, shape (n, r).
        sizes: Numbers of people who follow each other and have equal weights, if known. Sums over
            them are computed once for all columns ``u``.
        team: All processes whose people are compared.
    """

    def __init__(
        self,
        columns: Tensor,
        weights: Tensor,
        sizes: tuple[int, ...] | None = None,
        team: Team = ALONE,
    ) -> None:
        self.team = team
        self.places = compress(columns).mT.contiguous()
        self.weights = weights
        self.sizes = sizes
        # What every person contributes with itself, because a wave agrees with itself.
        self.alone = weights.square().sum(0)
        self.paired = min(columns.shape[-1] // 2, MOST_PAIRED)
        self.frequencies, of_single = (part.to(columns) for part in spectrum(COLUMN_GAMMAS))
        of_pairs = spectrum(PAIR_GAMMAS)[1].to(columns)
        self.coarse = coarse = of_pairs.shape[1]
        # In the order of the waves: those of pairs come first.
        self.pair_weights = torch.cat([of_pairs, of_pairs[:, 1:]], 1)
        high = of_single[:, coarse:]
        self.single_weights = torch.cat(
            [of_single[:, :coarse], of_single[:, 1:coarse], high, high], 1
        )
        self.first, self.second = torch.triu_indices(
            self.paired, self.paired, 1, device=columns.device
        )

    def tiles(self) -> Iterator[slice]:
        """Yield the people that are computed at once."""
        begin = 0
        for people in self.sizes or (self.places.shape[-1],):
            end = begin + people
            for start in range(begin, end, self._tile):
                yield slice(start, min(start + self._tile, end))
            begin = end

    @property
    def _tile(self) -> int:
        """How many people are computed at once."""
        batch, width, _ = self.places.shape
        row = (4 + self.weights.shape[1]) * len(self.frequencies) * batch * width
        return max(1, tile_of(WAVE_BYTES, self.places) // (row * self.places.element_size()))

    def kept(self, tiles: Sequence[slice]) -> dict[int, Phases]:
        """Return the waves of all tiles, by first person, if they fit into memory together."""
        few = self.places.shape[-1] <= self._tile and not fused_columns.is_fused(self)
        return {people.start: self.of(people) for people in tiles} if few else {}

    def _weights_of(self, people: slice) -> Tensor:
        """Return the weights of a tile, shape (people, r), or (1, r) if all are equal."""
        found: Tensor = self.weights[people][: 1 if self.sizes else None]
        return found

    def of(self, people: slice) -> Phases:
        """Return the waves of a tile.

        Only the lowest frequency needs a cosine and a sine. All others are products: those of
        frequency ``k + m`` follow from ``k`` and ``m``.
        """
        angle = self.places[..., people] * self.frequencies[1]
        most, coarse = len(self.frequencies), self.coarse
        shape = (*angle.shape[:2], 2 * coarse - 1, angle.shape[2])
        found = Phases(
            angle.new_empty(shape), angle.new_empty(*shape[:2], 2 * (most - coarse), shape[3])
        )

        def waves(begin: int, end: int) -> tuple[Tensor, Tensor]:
            """Return cosines and sines of frequencies on the same side of `coarse`, as views."""
            if begin < coarse:
                later = coarse - 1
                return found.coarse[:, :, begin:end], found.coarse[
                    :, :, later + begin : later + end
                ]
            low, high = begin - coarse, end - coarse
            return found.fine[:, :, low:high], found.fine[:, :, most - coarse :][:, :, low:high]

        found.coarse[:, :, 0] = 1
        cosine, sine = waves(1, 2)
        torch.cos(angle.unsqueeze(2), out=cosine)
        torch.sin(angle.unsqueeze(2), out=sine)
        known = 1
        while known < most - 1:
            end = coarse if known < coarse - 1 else most
            count = min(known, coarse - 1, end - 1 - known)
            (one, two), (by_cosine, by_sine) = waves(1, 1 + count), waves(known, known + 1)
            cosine, sine = waves(known + 1, known + 1 + count)
            torch.mul(one, by_cosine, out=cosine).addcmul_(two, by_sine, value=-1)
            torch.mul(two, by_cosine, out=sine).addcmul_(one, by_sine)
            known += count
        return found

    def _features(self, phases: Phases) -> Tensor:
        """Return the waves of paired columns as features, shape (batch, 2, size, people)."""
        found: Tensor = phases.coarse.unflatten(1, (2, -1))[:, :, : self.paired].flatten(2, 3)
        return found

    def total(
        self, tiles: Sequence[slice], kept: dict[int, Phases], scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return sums over all people of waves, and of products of features of two columns.

        Args:
            tiles: The people that are computed at once.
            kept: Waves that are already computed, by the first person.
            scores: Scores of this process, which travel with the waves, shape (batch,).

        Returns:
            Shapes (batch, columns, waves, r), and (batch, 2, r, size, size) with one row
            and one column for each feature of each paired column of a half; and the sum of scores.
        """
        single, pairs = self._own_total(tiles, kept)
        if self.team.is_alone:
            return single, pairs, scores
        # Of two columns, one product is needed, and none of a column with itself.
        parts = [single, self._blocks(pairs), self.alone, scores]
        single, blocks, self.alone, scores = self.team.sums(parts)
        pairs = torch.zeros_like(pairs)
        self._apart(pairs)[..., self.first, :, self.second, :] = blocks
        return single, pairs, scores

    def _own_total(self, tiles: Sequence[slice], kept: dict[int, Phases]) -> tuple[Tensor, Tensor]:
        """Return the first two results of `total`, of the people of this process."""
        if fused_columns.is_fused(self):
            return fused_columns.total(self)
        single, pairs = None, None
        for sums, products in self._each(partial(self._total_of, kept=kept), tiles, kept):
            single = sums if single is None else single.add_(sums)
            pairs = products if pairs is None else pairs.add_(products)
        assert single is not None
        assert pairs is not None
        return single, pairs

    def gradient(
        self,
        tiles: Sequence[slice],
        kept: dict[int, Phases],
        for_single: Tensor,
        for_pairs: Tensor,
    ) -> Tensor:
        """Return the gradient in compressed columns, shape (batch, columns, people).

        Args:
            tiles: As in `total`.
            kept: As in `total`.
            for_single: How waves pull; see `score_single`.
            for_pairs: How features pull; see `score_pairs`.
        """
        if fused_columns.is_fused(self):
            return fused_columns.gradient(self, for_single, for_pairs)
        found = torch.empty_like(self.places)

        def pull(people: slice) -> None:
            phases = kept.get(people.start) or self.of(people)
            found[..., people] = self._pull(phases, people, for_single, for_pairs)

        for _ in self._each(pull, tiles, kept):
            pass
        return found

    def _each(
        self, function: Callable[[slice], Found], tiles: Sequence[slice], kept: dict[int, Phases]
    ) -> Iterator[Found]:
        """Yield what a function returns for each tile; those of many people are side by side."""
        for begin in range(0, len(tiles), TOGETHER):
            some = tiles[begin : begin + TOGETHER]
            if kept:
                yield from map(function, some)
            else:
                yield from side_by_side(function, some, self.places.device)

    def _total_of(self, people: slice, kept: dict[int, Phases]) -> tuple[Tensor, Tensor]:
        """Return the first two results of `total` for the people of a tile."""
        phases, own = kept.get(people.start) or self.of(people), self._weights_of(people)
        features = self._features(phases)
        if self.sizes:
            sums = torch.cat([part.sum(-1) for part in phases], -1).unsqueeze(-1) * own[0]
            return sums, self._upper(features, features).unsqueeze(2) * own.mT[:, :, None]
        sums = torch.cat([part @ own for part in phases], -2)
        features = features.unsqueeze(2)
        return sums, self._upper(own.mT[:, None] * features, features)

    def _upper(self, first: Tensor, second: Tensor) -> Tensor:
        """Return ``first @ second.T``; the product of a column with an earlier one may be zero.

        It is not needed, so the rows of some columns are multiplied with those that follow alone.
        """
        size = first.shape[-2]
        strip = size // self.paired * max(1, round(self.paired / STRIPS)) if self.paired else size
        if first.shape[-1] < LEAST_IN_STRIPS or by_device({"cpu": 0, "cuda": 1}, first):
            return _over_people(first, second)
        found = first.new_zeros(*first.shape[:-1], size)
        for begin in range(0, size, strip):
            rows = slice(begin, begin + strip)
            torch.matmul(
                first[..., rows, :], second[..., begin:, :].mT, out=found[..., rows, begin:]
            )
        return found

    def squares_single(self, sums: Tensor) -> Tensor:
        """Return the sums of single columns, shape (batch, columns, kernels, r)."""
        return self.single_weights @ sums.square() - self.alone

    def score_single(self, sums: Tensor, scorer: Score) -> tuple[Tensor, Tensor]:
        """Return the score of single columns, and how waves pull: the derivative, `_turned`."""
        value, slopes = scorer.score(self.squares_single(sums))
        slopes = 2 * sums * (self.single_weights.mT @ slopes)
        low, high = slopes.tensor_split([2 * self.coarse - 1], -2)
        coarse, fine = self.frequencies.tensor_split([self.coarse])
        return value, torch.cat([_turned(low, coarse), _turned(high, fine)], -2)

    def _blocks(self, sums: Tensor) -> Tensor:
        """Return the block of each pair, shape (pairs, batch, 2, r, features, features)."""
        found: Tensor = self._apart(sums)[..., self.first, :, self.second, :]
        return found

    def _apart(self, sums: Tensor) -> Tensor:
        """Return a view of shape (batch, 2, r, paired, features, paired, features)."""
        sizes = (self.paired, self.pair_weights.shape[1])
        found: Tensor = sums.unflatten(-1, sizes).unflatten(-3, sizes)
        return found

    def squares_pairs(self, sums: Tensor) -> Tensor:
        """Return the sums of pairs of columns, shape (batch, pairs, kernels, r)."""
        return self._squares_of(self._blocks(sums))

    def _squares_of(self, blocks: Tensor) -> Tensor:
        by = self.pair_weights.mT
        found: Tensor = (blocks.square() @ by).mul_(by).sum(-2)  # (pairs, batch, 2, r, kernels)
        return found.permute(1, 2, 0, 4, 3).flatten(1, 2) - self.alone

    def score_pairs(self, sums: Tensor, scorer: Score) -> tuple[Tensor, Tensor]:
        """Return the score of pairs, and how features pull those of other columns, `_turned`."""
        blocks = self._blocks(sums)
        value, slopes = scorer.score(self._squares_of(blocks))
        weights, found = self.pair_weights, torch.zeros_like(sums)
        slopes = 2 * slopes.unflatten(1, (2, -1)).permute(2, 0, 1, 4, 3).unsqueeze(-2)
        pulled = (weights.mT * slopes @ weights).mul_(blocks)
        apart, frequencies = self._apart(found), self.frequencies[: self.coarse]
        apart[..., self.first, :, self.second, :] = _turned(pulled, frequencies)
        apart[..., self.second, :, self.first, :] = _turned(pulled.mT, frequencies)
        return value, found

    def _pull(self, phases: Phases, people: slice, for_single: Tensor, for_pairs: Tensor) -> Tensor:
        """Return the gradient of a tile in compressed columns, shape (batch, columns, people)."""
        features, weights = self._features(phases), self._weights_of(people)
        if self.sizes:
            single = (for_single @ weights[0]).unsqueeze(-2)
            pulled = (for_pairs * weights.mT[:, :, None]).sum(2) @ features
        else:
            single = for_single.mT
            pulled = for_pairs @ features.unsqueeze(2)
            pulled = pulled.mul_(weights.mT[:, None]).sum(2)
        coarse, fine = single.tensor_split([phases.coarse.shape[2]], -1)
        found = coarse @ phases.coarse + fine @ phases.fine
        found = (found if self.sizes else found * weights.mT).sum(-2)
        paired = pulled.mul_(features).unflatten(2, (self.paired, -1)).sum(-2)
        found.unflatten(1, (2, -1))[:, :, : self.paired].add_(paired)
        return found


def _turned(slopes: Tensor, frequencies: Tensor) -> Tensor:
    """Return what pulls a place from what pulls its waves, for slopes (..., waves, columns).

    The slope of a cosine in the place is minus the frequency times the sine, and so on. So the pull
    is a sum of the waves themselves, with these coefficients. The wave of frequency 0 is constant.
    """
    constant = slopes.shape[-2] % 2
    cosines, sines = slopes.tensor_split([len(frequencies)], -2)
    by = frequencies[constant:].unsqueeze(-1)
    return torch.cat(
        [
            torch.zeros_like(cosines[..., :constant, :]),
            by * sines,
            -by * cosines[..., constant:, :],
        ],
        -2,
    )


def _over_people(first: Tensor, second: Tensor) -> Tensor:
    """Return ``first @ second.T``, summed over the people (..., size, people).

    On a GPU, one product over all people has too few rows and columns to keep it busy.
    """
    people = by_device({"cpu": first.shape[-1], "cuda": PEOPLE_AT_ONCE}, first)
    parts = first.shape[-1] // people
    if parts < 2:
        return first @ second.mT
    most = parts * people
    one, two = (
        part[..., :most].unflatten(-1, (parts, people)).movedim(-2, -3) for part in (first, second)
    )
    rest = first[..., most:] @ second[..., most:].mT
    found: Tensor = (one @ two.mT).sum(-3) + rest
    return found
