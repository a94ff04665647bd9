"""Waves: all pairs of people compared in single columns and in pairs of columns, in linear time.

A Gaussian kernel of a compressed column is a sum of products of cosines and sines, so a sum over
all pairs of people is a sum of squares of sums over people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from parafair.algebra.devices import by_device
from parafair.dependence.scales import COLUMN_GAMMAS, PAIR_GAMMAS, compress, spectrum
from parafair.dependence.score import Score
from parafair.team import ALONE, Team

# Columns of each half that are compared in pairs: the first ones, because the cost grows with the
# square.
MOST_PAIRED = 12

# People of one product over people on a GPU.
PEOPLE_AT_ONCE = 2048

# Bytes of the waves computed at once.
WAVE_BYTES = {"cpu": 2**25, "cuda": 2**31}


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
        self.columns = columns
        self.weights = weights
        self.sizes = sizes
        # What every person contributes with itself, because a wave agrees with itself.
        self.alone = weights.square().sum(0)
        self.paired = min(columns.shape[-1] // 2, MOST_PAIRED)
        self.frequencies, self.single_weights = (p.to(columns) for p in spectrum(COLUMN_GAMMAS))
        coarse, weights = spectrum(PAIR_GAMMAS)
        self.coarse = len(coarse)
        # The features of a column in a pair: cosines from frequency 0 on, then sines.
        self.pair_weights = torch.cat([weights, weights[:, 1:]], 1).to(columns)
        self.first, self.second = torch.triu_indices(
            self.paired, self.paired, 1, device=columns.device
        )

    def tiles(self) -> Iterator[slice]:
        """Yield the people that are computed at once."""
        begin = 0
        for people in self.sizes or (self.columns.shape[1],):
            end = begin + people
            for start in range(begin, end, self._tile):
                yield slice(start, min(start + self._tile, end))
            begin = end

    @property
    def _tile(self) -> int:
        """How many people are computed at once."""
        batch, _, width = self.columns.shape
        row = (4 + self.weights.shape[1]) * len(self.frequencies) * batch * width
        return max(1, by_device(WAVE_BYTES, self.columns) // (row * self.columns.element_size()))

    def kept(self, tiles: Sequence[slice]) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the waves of all tiles, by first person, if they fit into memory together."""
        few = self.columns.shape[1] <= self._tile
        return {people.start: self.of(people) for people in tiles} if few else {}

    def _weights_of(self, people: slice) -> Tensor:
        """Return the weights of a tile, shape (people, r), or (1, r) if all are equal."""
        found: Tensor = self.weights[people][: 1 if self.sizes else None]
        return found

    def of(self, people: slice) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, two of shape (batch, people, columns, frequencies)."""
        phase = compress(self.columns[:, people]).unsqueeze(-1) * self.frequencies
        return phase.cos(), phase.sin()

    def features(self, phases: tuple[Tensor, Tensor]) -> Tensor:
        """Return the features of paired columns, shape (batch, 2, 1, people, paired * features)."""
        cosine, sine = (self._paired(part) for part in phases)
        return torch.cat([cosine, sine[..., 1:]], -1).movedim(2, 1).flatten(3).unsqueeze(2)

    def _paired(self, waves: Tensor) -> Tensor:
        """Return what is about pairs, shape (batch, people, 2, paired, coarse), as a view."""
        found: Tensor = waves.unflatten(2, (2, -1))[:, :, :, : self.paired, : self.coarse]
        return found

    def total(
        self, tiles: Iterable[slice], kept: dict[int, tuple[Tensor, Tensor]], scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return sums over all people of waves, and of products of features of two columns.

        Args:
            tiles: The people that are computed at once.
            kept: Waves that are already computed, by the first person.
            scores: Scores of this process, which travel with the waves, shape (batch,).

        Returns:
            Shapes (2, batch, columns, frequencies, r), and (batch, 2, r, size, size) with one row
            and one column for each feature of each paired column of a half; and the sum of scores.
        """
        single, pairs = None, None
        for people in tiles:
            phases, own = kept.get(people.start) or self.of(people), self._weights_of(people)
            features = self.features(phases)
            if self.sizes:
                both = [p.sum(1).unsqueeze(-1) * own[0] for p in phases]
                products = _over_people(features, features) * own.mT[:, :, None]
            else:
                both = [(p.flatten(2).mT @ own).unflatten(1, p.shape[2:]) for p in phases]
                products = _over_people(features, own.mT[:, :, None] * features)
            single = torch.stack(both) if single is None else single.add_(torch.stack(both))
            pairs = products if pairs is None else pairs.add_(products)
        assert single is not None
        assert pairs is not None
        if self.team.is_alone:
            return single, pairs, scores
        # Of two columns, one product is needed, and none of a column with itself.
        parts = [single, self._blocks(pairs), self.alone, scores]
        single, blocks, self.alone, scores = self.team.sums(parts)
        pairs = torch.zeros_like(pairs)
        self._apart(pairs)[..., self.first, :, self.second, :] = blocks
        return single, pairs, scores

    def squares_single(self, sums: Tensor) -> Tensor:
        """Return the sums of single columns, shape (batch, columns, kernels, r)."""
        return self.single_weights @ sums.square().sum(0) - self.alone

    def score_single(self, sums: Tensor, scorer: Score) -> tuple[Tensor, Tensor]:
        """Return the score of single columns, and its derivative in `sums`."""
        value, slopes = scorer.score(self.squares_single(sums))
        return value, 2 * sums * (self.single_weights.mT @ slopes)

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
        weights = self.pair_weights
        found: Tensor = torch.einsum("kf,pbhrfg,kg->bhpkr", weights, blocks.square(), weights)
        return found.flatten(1, 2) - self.alone

    def score_pairs(self, sums: Tensor, scorer: Score) -> tuple[Tensor, Tensor]:
        """Return the score of pairs, and its derivative in `sums`, as if it were not symmetric."""
        blocks = self._blocks(sums)
        value, slopes = scorer.score(self._squares_of(blocks))
        weights, found = self.pair_weights, torch.zeros_like(sums)
        slopes = 2 * slopes.unflatten(1, (2, -1))
        pulled = torch.einsum("kf,bhpkr,kg->pbhrfg", weights, slopes, weights) * blocks
        apart = self._apart(found)
        apart[..., self.first, :, self.second, :] = pulled
        apart[..., self.second, :, self.first, :] = pulled.mT
        return value, found

    def pull(
        self,
        phases: tuple[Tensor, Tensor],
        people: slice,
        for_single: Tensor,
        for_pairs: Tensor,
    ) -> Tensor:
        """Return the gradient in compressed columns, shape (batch, people, columns)."""
        (cosine, sine), weights = phases, self._weights_of(people)
        along = for_single * self.frequencies.unsqueeze(-1)
        own = weights.mT[:, :, None]
        if self.sizes:
            for_cosine, for_sine = along @ weights[0]
            found = torch.einsum("bpcf,bcf->bpc", cosine, for_sine)
            found -= torch.einsum("bpcf,bcf->bpc", sine, for_cosine)
            pulled = self.features(phases).squeeze(2) @ (for_pairs * own).sum(2)
        else:
            for_cosine, for_sine = (
                (weights @ part.flatten(1, 2).mT).unflatten(-1, part.shape[1:3]) for part in along
            )
            found = (for_sine * cosine).sum(-1) - (for_cosine * sine).sum(-1)
            pulled = (self.features(phases) @ for_pairs * own).sum(2)
        pulled = pulled.unflatten(-1, (self.paired, -1)).movedim(1, 2)
        paired = pulled[..., self.coarse :] * self._paired(cosine)[..., 1:]
        paired -= pulled[..., 1 : self.coarse] * self._paired(sine)[..., 1:]
        # The wave of frequency 0 is constant.
        paired = paired @ self.frequencies[1 : self.coarse]
        found.unflatten(2, (2, -1))[..., : self.paired].add_(paired)
        return found


def _over_people(first: Tensor, second: Tensor) -> Tensor:
    """Return ``first.T @ second``, summed over the people (..., people, size).

    On a GPU, one product over all people has too few rows and columns to keep it busy.
    """
    people = by_device({"cpu": first.shape[-2], "cuda": PEOPLE_AT_ONCE}, first)
    parts = first.shape[-2] // people
    if parts < 2:
        return first.mT @ second
    most = parts * people
    one, two = (part[..., :most, :].unflatten(-2, (parts, people)) for part in (first, second))
    rest = first[..., most:, :].mT @ second[..., most:, :]
    found: Tensor = (one.mT @ two).sum(-3) + rest
    return found
