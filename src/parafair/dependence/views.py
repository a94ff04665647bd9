"""Views of the rows: what the criterion compares, and how a change of the rows changes it.

Each view gives sums ``u_i k(x_i, x_j) u_j`` over pairs of different people, for a few columns ``u``
and several kernels ``k``. Whole rows are compared within chunks of people. Single columns, and
pairs of columns, are compared among all people through waves: cosines and sines of a compressed
column. The cost of all of them is linear in the number of people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from parafair.algebra.devices import tile_of
from parafair.dependence import fused
from parafair.dependence.kernels import LEAST_EXPONENT
from parafair.dependence.pieces import compare_pieces, pieces_of
from parafair.dependence.scales import ROW_GAMMAS, compression_slope
from parafair.dependence.score import Score
from parafair.dependence.waves import Waves
from parafair.dependence.weights import Alike
from parafair.team import ALONE, Team
from parafair.threads import side_by_side

# Bytes of the Gram matrices computed at once: on a CPU, they must fit into the cache.
GRAM_BYTES = {"cpu": 2**21, "cuda": 2**30}


def compare_rows(
    rows: Tensor, scorer: Score, places: Tensor, runs: Sequence[tuple[int, ...]] | None = None
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
        return fused.compare_rows(rows, scorer, places, runs)
    in_pieces = runs is not None and rows.device.type == "cpu"
    parts = [slice(k, k + 1) for k in range(len(places))] if in_pieces else _parts(rows, places)

    def compare(part: slice) -> tuple[Tensor, Tensor]:
        points, own = rows[:, places[part]], scorer.take(part)
        if not runs or not in_pieces:
            return _compare_chunks(points, own)
        value, moved = compare_pieces(
            points[:, 0], own, row_gammas(rows), pieces_of(runs[part.start])
        )
        return value, moved.unsqueeze(1)

    value, gradient = rows.new_zeros(len(rows)), torch.zeros_like(rows)
    found = side_by_side(compare, parts, rows.device)
    for part, (scored, moved) in zip(parts, found, strict=True):
        value += scored
        # Filled-up places have weight zero, so adding them changes nothing.
        gradient.index_add_(1, places[part].flatten(), moved.flatten(1, 2))
    return value, gradient


def _compare_chunks(points: Tensor, scorer: Score) -> tuple[Tensor, Tensor]:
    """Return the score of some chunks, shape (batch,), and its gradient like the points.

    What the sums and their gradient need is one product with each kernel. The many people are
    columns: products with few columns are slow.

    Args:
        points: Whitened rows of the people of each chunk, shape (batch, chunks, people, d).
        scorer: The score of their sums.
    """
    gammas, own = row_gammas(points), scorer.weights.columns
    extended = torch.cat([points, torch.ones_like(points[..., :1])], -1).mT
    weighted = (own.mT.unsqueeze(-2) * extended.unsqueeze(-3)).flatten(-3, -2)
    images = torch.stack([weighted @ gram for gram in row_grams(points, gammas[0])], -3)
    images = images.unflatten(-2, (own.shape[-1], -1))  # (..., kernels, r, d + 1, people)
    value, slopes = scorer.score((images[..., -1, :] * own.mT.unsqueeze(-3)).sum(-1))
    pull = 4 * slopes * slopes.new_tensor(gammas).unsqueeze(-1)
    pulled = (pull[..., None, None] * images).sum(-4) * own.mT.unsqueeze(-2)
    pulled = pulled.sum(-3).mT
    return value, pulled[..., :-1] - pulled[..., -1:] * points


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


def _parts(rows: Tensor, places: Tensor) -> list[slice]:
    """Return the chunks that are computed at once."""
    chunks, people = places.shape
    each = rows.element_size() * people**2 * len(rows)
    at_once = max(1, tile_of(GRAM_BYTES, rows) // each)
    return [slice(begin, min(begin + at_once, chunks)) for begin in range(0, chunks, at_once)]


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
    columns: Tensor,
    single: Score,
    pairs: Score,
    alike: Alike | None = None,
    team: Team = ALONE,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the score of columns, shape (batch,), and its gradient, shape (batch, n, columns).

    Args:
        columns: Columns of variance about 1, shape (batch, n, columns): the components, then the
            whitened columns. Within each half they are also compared in pairs.
        single: The score of single columns, with the columns in the place of chunks.
        pairs: The score of pairs, with the pairs in the place of chunks.
        alike: People with equal weights, if they are known.
        team: All processes whose people are compared.
        scores: Other scores of this process, shape (batch,); those of all processes are added.
    """
    weights, sizes = single.weights.columns[0], None
    if alike is not None:
        columns, weights, sizes = columns[:, alike.order], weights[alike.order], alike.sizes
    waves = Waves(columns, weights, sizes, team)
    tiles = list(waves.tiles())
    kept = waves.kept(tiles)
    scores = columns.new_zeros(len(columns)) if scores is None else scores
    of_single, of_pairs, scores = waves.total(tiles, kept, scores)
    value, for_single = waves.score_single(of_single, single)
    more, for_pairs = waves.score_pairs(of_pairs, pairs)
    gradient = waves.gradient(tiles, kept, for_single, for_pairs).mT * compression_slope(columns)
    return scores + (value + more), gradient if alike is None else gradient[:, alike.back]


def column_sums(columns: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of single columns and of pairs, shape (batch, columns or pairs, kernels, r).

    Args:
        columns: As in `compare_columns`.
        weights: The columns ``u``, shape (n, r).
    """
    waves = Waves(columns, weights)
    of_single, of_pairs, _ = waves.total(list(waves.tiles()), {}, columns.new_zeros(len(columns)))
    return waves.squares_single(of_single), waves.squares_pairs(of_pairs)
