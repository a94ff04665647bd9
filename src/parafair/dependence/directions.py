"""Directions in which groups differ most, whichever basis rows are written in.

Statistics of whole rows add up what all directions have. Where only one of them depends on a
feature, that can pass for chance: the other directions have less than their share. So the second
moments of whitened rows are compared by their eigenvalues. A function of eigenvalues does not
change with a rotation, and has a gradient also where eigenvalues meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from parafair.dependence.scales import normal_rows
from parafair.dependence.score import BEND
from parafair.dependence.whitening import Standardized
from parafair.team import ALONE, Team

# Rows longer than this many times the usual length count little more than these.
LIMIT = 3.0**0.5


@dataclass(frozen=True, eq=False)
class Directions:
    """The score of ``M = sum over i of w_i y_i y_i^T``, for centered weights w of the features.

    Here y are whitened rows, of limited length. At chance, the eigenvalues of M have a mean square
    of 1. Whatever exceeds that counts, so there is nothing to gain beyond chance.

    Attributes:
        weights: Centered columns with squares that add up to 1 over all people, (n, r).
        shares: The part of each column in the score, shape (r,); they add up to 1.
        people: How many people there are, those of other processes included.
        team: All processes.
    """

    weights: Tensor
    shares: Tensor
    people: int
    team: Team = ALONE

    @classmethod
    def of(cls, columns: Tensor, people: int, team: Team = ALONE) -> Directions:
        """Return the score for columns (n, r) that span the features' centered Gram matrix.

        Args:
            columns: Those of the people of this process.
            people: How many there are in all processes.
            team: All processes.
        """
        columns = columns.double()
        columns = columns - team.sum(columns.sum(0)) / people
        squares = team.sum(columns.square().sum(0))
        kept = squares > torch.finfo(torch.float32).eps * squares.sum()
        columns, squares = columns[:, kept], squares[kept]
        return cls(columns / squares.sqrt(), squares / squares.sum(), people, team)

    def take(self, order: Tensor) -> Directions:
        """Return the score with the features of the people in another order."""
        return Directions(self.weights[order], self.shares, self.people, self.team)

    def eigenvalues(self, rows: Tensor) -> Tensor:
        """Return those of each column of the weights, shape (batch, r, d).

        Args:
            rows: Whitened rows, shape (batch, n, d).
        """
        found: Tensor = torch.linalg.eigvalsh(self._moments(shorten(rows.double())))
        return found

    def score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the score of whitened rows (batch, n, d), and its gradient."""
        rows = rows.double()
        short = shorten(rows)
        values, vectors = torch.linalg.eigh(self._moments(short))
        # Up to BEND deviations of a squared normal number it is quadratic, and linear beyond.
        bend = BEND * 2**0.5
        relative = (values.square() - 1).clamp_min(0) / bend
        root = (relative.square() + 1).sqrt()
        # A group that lies in one half of a direction, in the units of the eigenvalues.
        share = self.shares[:, None] * (rows.shape[-1] + 1) / (self.people * rows.shape[-1])
        value = (share * bend * relative.square() / (root + 1)).sum((-2, -1))
        slopes = share * 2 * values * relative / root
        pull = torch.einsum("brjk,brk,brlk->brjl", vectors, slopes, vectors) / level(rows.shape[-1])
        pulled = 2 * torch.einsum("ir,brjl,bil->bij", self.weights, pull, short)
        return value, shorten_pull(rows, pulled)

    def _moments(self, short: Tensor) -> Tensor:
        """Return ``M`` for each column of the weights, shape (batch, r, d, d)."""
        found = self.team.sum(torch.einsum("ir,bij,bil->brjl", self.weights, short, short))
        # A member that has overflowed must not fail the whole batch.
        return found.nan_to_num(0.0, 0.0, 0.0) / level(short.shape[-1])


def shorten(rows: Tensor) -> Tensor:
    """Return rows of limited length, ``x / sqrt(1 + |x|**2 / (3 d))``; rotations stay rotations."""
    return rows / _stretch(rows)


def shorten_pull(rows: Tensor, slope: Tensor) -> Tensor:
    """Return the gradient in the rows from that in shortened rows."""
    stretch = _stretch(rows)
    along = (rows * slope).sum(-1, keepdim=True) / (LIMIT**2 * rows.shape[-1])
    return (slope - rows * along / stretch.square()) / stretch


def _stretch(rows: Tensor) -> Tensor:
    squares = rows.square().sum(-1, keepdim=True)
    return (1 + squares / (LIMIT**2 * rows.shape[-1])).sqrt()


@lru_cache
def level(rank: int) -> float:
    """Return the root mean square of the eigenvalues of ``M`` for normal rows, over permutations.

    With unit weights, the mean square of an entry of M is the variance of the product of two
    columns.
    """
    short = shorten(Standardized.of(normal_rows(rank)).whitened)
    products = torch.einsum("ij,il->ijl", short, short)
    return float((products.var(0).sum() / rank).sqrt())
