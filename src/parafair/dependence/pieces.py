"""People of a chunk compared in pieces: half of a symmetric Gram matrix, in few passes over it.

A piece has people with equal weights. So the sums of a statistic are sums over the blocks of the
Gram matrix, and its gradient is one product with the sum of all kernels, each block of them
multiplied by one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import NamedTuple

import torch
from torch import Tensor

from parafair.dependence.kernels import LEAST_EXPONENT
from parafair.dependence.score import Score

# People who are alike are divided into at most this many pieces. A block takes as long as this many
# entries more than it has, measured by hand.
MOST_PIECES, BLOCK_COST = 10, 300

# The exponent of a place without a person is below all that count.
NOBODY = 1e6


class Pieces(NamedTuple):
    """Pieces of a chunk, and the blocks of its Gram matrix on the diagonal and above.

    Attributes:
        places: The place of each person of a piece in the chunk, shape (pieces, width). Places
            without a person repeat the first one.
        filled: Whether there is a person, of the same shape.
        back: Where each place of the chunk is among those of all pieces, shape (people,).
        runs: A place of the chunk with the weights of each piece, shape (pieces,).
        first: The piece of the rows of each block, first the blocks on the diagonal.
        second: The piece of its columns.
    """

    places: Tensor
    filled: Tensor
    back: Tensor
    runs: Tensor
    first: Tensor
    second: Tensor


@lru_cache(maxsize=256)
def pieces_of(alike: tuple[int, ...]) -> Pieces:
    """Return the pieces with the fewest entries, or about that.

    Args:
        alike: Numbers of people who follow each other and have equal weights.
    """
    widths = {-(-size // parts) for size in alike for parts in range(1, MOST_PIECES + 1)}
    count, width = min(
        ((sum(-(-size // width) for size in alike), width) for width in sorted(widths)),
        key=lambda found: found[0] * (found[0] + 1) * (found[1] ** 2 + BLOCK_COST),
    )
    starts, begin = [], 0
    for size in alike:
        starts += [(begin + start, begin + size) for start in range(0, size, width)]
        begin += size
    first, last = torch.tensor(starts, dtype=torch.long, device="cpu").mT
    places = first[:, None] + torch.arange(width, device="cpu")
    filled = places < last[:, None]
    rows, columns = torch.triu_indices(count, count, 1, device="cpu")
    diagonal = torch.arange(count, device="cpu")
    return Pieces(
        places.where(filled, first[:, None]),
        filled,
        filled.flatten().nonzero().flatten(),
        first,
        torch.cat([diagonal, rows]),
        torch.cat([diagonal, columns]),
    )


def compare_pieces(
    points: Tensor, scorer: Score, gammas: Sequence[float], pieces: Pieces
) -> tuple[Tensor, Tensor]:
    """Return the score of a chunk, shape (batch,), and its gradient like the points.

    Args:
        points: Whitened rows of its people, shape (batch, people, d).
        scorer: The score of its sums.
        gammas: Those of all kernels.
        pieces: Its pieces.
    """
    own, first, second = scorer.weights.columns[0], pieces.first, pieces.second
    pairs = own[pieces.runs[first]] * own[pieces.runs[second]]  # (blocks, r)
    # Above the diagonal, a block stands for the one below it as well.
    times = (1 + (first != second).to(pairs)).unsqueeze(-1)
    # The last column of the weights is 1 where there is a person.
    present = (own[pieces.places, -1] * pieces.filled).unsqueeze(-1)
    within = points[:, pieces.places] * present
    base = _first_kernel(within, present, gammas[0], pieces)
    totals, gram = [_total(base)], torch.empty_like(base)
    for kernel in range(1, len(gammas)):
        _finer(base if kernel == 1 else gram, out=gram)
        totals.append(_total(gram))
    # Block sums nearly cancel each other.
    sums = torch.stack(totals, -2) @ (times * pairs).double()
    value, slopes = scorer.score(sums.to(points).unsqueeze(1))
    pull = 4 * slopes[:, 0] * slopes.new_tensor(gammas).unsqueeze(-1)
    by = (pull @ pairs.mT)[..., None, None]  # (batch, kernels, blocks, 1, 1)
    weights = base * by[:, 0]
    for kernel in range(1, len(gammas)):
        _finer(base, out=base)
        weights.addcmul_(base, by[:, kernel])
    return value, _pulled(within, present, weights, pieces)[:, pieces.back]


def _total(gram: Tensor) -> Tensor:
    """Return the sum of each block, shape (batch, blocks), in double precision."""
    found: Tensor = gram.sum(-1).sum(-1, dtype=torch.float64)
    return found


def _first_kernel(within: Tensor, present: Tensor, gamma: float, pieces: Pieces) -> Tensor:
    """Return the widest kernel of each block, shape (batch, blocks, width, width).

    The diagonal is zero: subtracted later, it would leave rounding errors as large as the few
    entries of a fine kernel. So is a place without a person, up to rounding.
    """
    by = gamma / log(2)
    squares = by * within.square().sum(-1, keepdim=True) + NOBODY * (1 - present)
    ones = torch.ones_like(squares)
    left = torch.cat([2 * by * within, -squares, -ones], -1)
    right = torch.cat([within, ones, squares], -1)
    gram = left[:, pieces.first] @ right[:, pieces.second].mT
    # Powers of two: PyTorch computes them several times as fast as those of e.
    gram.clamp_(LEAST_EXPONENT[within.dtype] / (4 * log(2)), 0).exp2_()
    gram[:, : len(pieces.places)].diagonal(dim1=-2, dim2=-1).fill_(0)
    return gram


def _finer(gram: Tensor, *, out: Tensor) -> None:
    """Compute the next kernel, whose gamma is four times as large."""
    # Denormal numbers would make every later operation slow.
    torch.clamp(gram, min=torch.finfo(gram.dtype).tiny ** (0.75 / 4), out=out)
    out.square_().square_()


def _pulled(within: Tensor, present: Tensor, weights: Tensor, pieces: Pieces) -> Tensor:
    """Return ``sum over j of w_ij (x_j - x_i)`` for all places, shape (batch, places, d)."""
    first, second, count = pieces.first, pieces.second, len(pieces.places)
    extended = torch.cat([within, present.expand_as(within[..., :1])], -1).mT
    found = torch.zeros_like(extended)
    found.index_add_(1, second, extended[:, first] @ weights)
    found.index_add_(1, first[count:], extended[:, second[count:]] @ weights[:, count:].mT)
    found = found.mT
    return (found[..., :-1] - found[..., -1:] * within).flatten(1, 2)
