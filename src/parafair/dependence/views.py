"""Views of the rows: what the criterion compares, and how a change of the rows changes it.

Each view gives sums ``u_i k(x_i, x_j) u_j`` over pairs of different people, for a few columns ``u``
and several kernels ``k``. Whole rows are compared within chunks of people. Single columns, and
pairs of columns, are compared among all people through waves: cosines and sines of a compressed
column. The cost of all of them is linear in the number of people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.devices import by_device
from parafair.dependence import fused
from parafair.dependence.kernels import LEAST_EXPONENT
from parafair.dependence.scales import (
    COLUMN_GAMMAS,
    PAIR_GAMMAS,
    ROW_GAMMAS,
    compress,
    compression_slope,
    spectrum,
)
from parafair.dependence.weights import Alike, Weights

# Bytes of the Gram matrices computed at once: on a CPU, they must fit into the cache.
GRAM_BYTES = {"cpu": 2**21, "cuda": 2**30}
# Columns of each half that are compared in pairs: the first ones, because the cost grows with the
# square.
MOST_PAIRED = 12

# People of one product over people on a GPU.
PEOPLE_AT_ONCE = 2048

# Bytes of the waves computed at once.
WAVE_BYTES = {"cpu": 2**25, "cuda": 2**31}


class Score(Protocol):
    """A function of the sums of a view."""

    @property
    def weights(self) -> Weights:
        """The weights whose columns the sums are for."""

    def take(self, chunks: slice) -> Score:
        """Return the part for some chunks."""

    def score(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value, shape (...), for sums (..., chunks, kernels, r), and the derivative."""


def compare_rows(
    rows: Tensor, scorer: Score, places: Tensor, runs: Sequence[Sequence[int]] | None = None
) -> tuple[Tensor, Tensor]:
    """Return the score of whole rows, shape (batch,), and its gradient, shape (batch, n, d).

    Args:
        rows: Whitened rows, shape (batch, n, d).
        scorer: The score of the sums; it is added up over chunks.
        places: Positions of the people of each chunk, shape (chunks, people).
        runs: Numbers of people who follow each other in a chunk and have equal weights, if known;
            a last person without weight belongs to the last of them.
    """
    if fused.is_fused(rows, scorer.weights.columns):
        return fused.compare_rows(rows, scorer, places)
    value, gradient = rows.new_zeros(len(rows)), torch.zeros_like(rows)
    gammas = row_gammas(rows)
    for part in _parts(rows, places):
        own, points = scorer.weights.columns[part], rows[:, places[part]]
        extended = torch.cat([points, torch.ones_like(points[..., :1])], -1).mT
        alike = runs[part.start] if runs and part.stop - part.start == 1 else None
        images = _images(extended, own, row_grams(points, gammas[0]), alike)
        scored, slopes = scorer.take(part).score(
            (images[..., -1, :] * own.mT.unsqueeze(-3)).sum(-1)
        )
        value += scored
        pull = 4 * slopes * slopes.new_tensor(gammas).unsqueeze(-1)
        pulled = (pull[..., None, None] * images).sum(-4) * own.mT.unsqueeze(-2)
        pulled = pulled.sum(-3).mT
        moved = pulled[..., :-1] - pulled[..., -1:] * points
        # Filled-up places have weight zero, so adding them changes nothing.
        gradient.index_add_(1, places[part].flatten(), moved.flatten(1, 2))
    return value, gradient


def _images(
    extended: Tensor, own: Tensor, grams: Iterator[Tensor], alike: Sequence[int] | None
) -> Tensor:
    """Return what the sums and their gradient need, shape (..., kernels, r, d + 1, people).

    This is one product with each kernel. The many people are columns: products with few columns are
    slow. People with equal weights are summed up once for all columns of the weights.

    Args:
        extended: The points and a one, people as columns, shape (..., d + 1, people).
        own: The columns of the weights, shape (..., people, r).
        grams: The Gram matrix of each kernel.
        alike: As `runs` of `compare_rows`, of one chunk.
    """
    if alike is None or len(alike) > own.shape[-1]:
        weighted = (own.mT.unsqueeze(-2) * extended.unsqueeze(-3)).flatten(-3, -2)
        images = torch.stack([weighted @ gram for gram in grams], -3)
        apart: Tensor = images.unflatten(-2, (own.shape[-1], -1))
        return apart
    # The last column of the weights is 1 where there is a person.
    points = (extended * own[..., -1].unsqueeze(-2)).split(list(alike), -1)
    found = []
    for gram in grams:
        parts = zip(points, gram.split(list(alike), -2), strict=True)
        found.append(torch.stack([some @ rows for some, rows in parts], -3))
    first = own.new_tensor([0, *alike[:-1]], dtype=torch.long).cumsum(0)
    sums = torch.stack(found, -4).flatten(-2)
    weights = own.index_select(-2, first).mT.unsqueeze(-3)  # (..., 1, r, groups)
    found_of_all: Tensor = weights @ sums
    return torch.unflatten(found_of_all, -1, extended.shape[-2:])


def row_sums(rows: Tensor, columns: Tensor, places: Tensor) -> Tensor:
    """Return the sums of whole rows, shape (batch, chunks, kernels, r).

    Args:
        rows: Whitened rows, shape (batch, n, d).
        columns: The columns ``u`` of each chunk, shape (chunks, people, r).
        places: Positions of the people of each chunk, shape (chunks, people).
    """
    if fused.is_fused(rows, columns):
        return fused.row_sums(rows, columns, places)
    found = []
    for part in _parts(rows, places):
        own, points = columns[part], rows[:, places[part]]
        grams = row_grams(points, row_gammas(rows)[0])
        found.append(torch.stack([((own.mT @ gram) * own.mT).sum(-1) for gram in grams], -2))
    return torch.cat(found, 1)


def row_gammas(rows: Tensor) -> list[float]:
    """Return the gammas of whole rows, whose squared distances grow with their length."""
    return [gamma / (2 * rows.shape[-1]) for gamma in ROW_GAMMAS]


def _parts(rows: Tensor, places: Tensor) -> Iterator[slice]:
    """Yield the chunks that are computed at once."""
    chunks, people = places.shape
    each = rows.element_size() * people**2 * len(rows)
    at_once = max(1, by_device(GRAM_BYTES, rows) // each)
    return (slice(begin, min(begin + at_once, chunks)) for begin in range(0, chunks, at_once))


def row_grams(points: Tensor, gamma: float) -> Iterator[Tensor]:
    """Yield the Gram matrix of each scale; the gammas grow fourfold, so one exponential is enough.

    The diagonal is zero: subtracted later, it would leave rounding errors as large as the few
    entries of a fine kernel. A matrix is overwritten by the next one.
    """
    squares = points.square().sum(-1, keepdim=True)
    gram = torch.matmul(points, points.mT).mul_(-2).add_(squares).add_(squares.mT)
    gram = gram.mul_(-gamma).clamp_(LEAST_EXPONENT[points.dtype] / 4, 0).exp_()
    gram.diagonal(dim1=-2, dim2=-1).fill_(0)
    yield gram
    # Denormal numbers would make every later operation slow.
    smallest = torch.finfo(points.dtype).tiny ** (0.75 / 4)
    for _ in ROW_GAMMAS[1:]:
        yield gram.clamp_(min=smallest).square_().square_()


def compare_columns(
    columns: Tensor, single: Score, pairs: Score, alike: Alike | None = None
) -> tuple[Tensor, Tensor]:
    """Return the score of columns, shape (batch,), and its gradient, shape (batch, n, columns).

    Args:
        columns: Columns of variance about 1, shape (batch, n, columns): the components, then the
            whitened columns. Within each half they are also compared in pairs.
        single: The score of single columns, with the columns in the place of chunks.
        pairs: The score of pairs, with the pairs in the place of chunks.
        alike: People with equal weights, if they are known.
    """
    weights, sizes = single.weights.columns[0], None
    if alike is not None:
        columns, weights, sizes = columns[:, alike.order], weights[alike.order], alike.sizes
    waves = Waves(columns, weights, sizes)
    tiles = list(waves.tiles())
    kept = waves.kept(tiles)
    of_single, of_pairs = waves.total(tiles, kept)
    value, for_single = waves.score_single(of_single, single)
    more, for_pairs = waves.score_pairs(of_pairs, pairs)
    gradient = torch.empty_like(columns)
    for people in tiles:
        phases = kept.get(people.start) or waves.of(people)
        gradient[:, people] = waves.pull(phases, people, for_single, for_pairs)
    gradient *= compression_slope(columns)
    return value + more, gradient if alike is None else gradient[:, alike.back]


def column_sums(columns: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of single columns and of pairs, shape (batch, columns or pairs, kernels, r).

    Args:
        columns: As in `compare_columns`.
        weights: The columns ``u``, shape (n, r).
    """
    waves = Waves(columns, weights)
    of_single, of_pairs = waves.total(waves.tiles(), {})
    return waves.squares_single(of_single), waves.squares_pairs(of_pairs)


class Waves:
    """Cosines and sines of compressed columns, their sums over people, and the derivatives.

    Args:
        columns: As in `compare_columns`.
        weights: The columns ``u``, shape (n, r).
        sizes: Numbers of people who follow each other and have equal weights, if known. Sums over
            them are computed once for all columns ``u``.
    """

    def __init__(
        self, columns: Tensor, weights: Tensor, sizes: tuple[int, ...] | None = None
    ) -> None:
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
        self, tiles: Iterable[slice], kept: dict[int, tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return sums over all people of waves, and of products of features of two columns.

        Args:
            tiles: The people that are computed at once.
            kept: Waves that are already computed, by the first person.

        Returns:
            Shapes (2, batch, columns, frequencies, r), and (batch, 2, r, size, size) with one row
            and one column for each feature of each paired column of a half.
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
        return single, pairs

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
