"""Scales of the criterion's kernels, and what each kernel measures on rows without dependence.

Every kernel is judged in units of its own fluctuation over permutations of the people. That
fluctuation is a constant: it is computed once for normal rows. Computed from the rows of a fit, it
would be one more thing to minimize.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from parafair.dependence.whitening import RowViews

# Multipliers of squared distances. Whitened rows of normal data are 2 * rank apart in squared
# distance. The widest kernel sees little more than means, so dependence in the means cannot be
# offset by matched neighbors; the finest one sees only near neighbors.
ROW_GAMMAS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0)
# Single columns, of variance about 1: widths from 1 to an eighth, the last about that of the noise.
COLUMN_GAMMAS = (0.5, 2.0, 8.0, 32.0)
# Pairs of columns: widths from 1 to a fourth.
PAIR_GAMMAS = (0.5, 2.0, 8.0)

# Columns are compressed to the interval (-LIMIT, LIMIT), so that a few people far away stay
# neighbors of one another. It has the width of a uniform distribution of variance 1.
LIMIT = 3**0.5
# Kernels of compressed columns repeat themselves after this distance. At the widest scale, people
# at opposite ends are then 0.04 similar instead of 0.002.
PERIOD = 6.0
# Frequencies cover this many standard deviations of a kernel's spectrum.
REACH = 3.0

# Size of the normal sample from which the fluctuation of a kernel is computed.
REFERENCE_PEOPLE = 400


@dataclass(frozen=True)
class Level:
    """Squares of a kernel's entries under independence, in the units of the kernel.

    Attributes:
        pairs: Mean square of the doubly centered entries of different people.
        people: Variance of the mean similarity of a person to all others.
        mean: Mean similarity of different people.
    """

    pairs: float
    people: float
    mean: float

    @classmethod
    def of(cls, gram: Tensor) -> Level:
        """Return the level of a Gram matrix, shape (n, n), without its diagonal."""
        n = len(gram)
        off = gram - torch.diag(gram.diagonal())
        mean = off.sum() / (n * (n - 1))
        centered = off.sum(1) / (n - 1) - mean
        rest = off - mean - (n - 1) / (n - 2) * (centered[:, None] + centered)
        rest = rest - torch.diag(rest.diagonal())
        pairs, people = rest.square().sum() / (n * (n - 1)), centered.square().mean()
        return cls(float(pairs), float(people), float(mean))


def compress(columns: Tensor) -> Tensor:
    """Return ``x / sqrt(1 + x**2 / 3)``: smooth, increasing, between -LIMIT and LIMIT."""
    return columns / (1 + columns.square() / LIMIT**2).sqrt()


def compression_slope(columns: Tensor) -> Tensor:
    """Return the derivative of `compress`."""
    return (1 + columns.square() / LIMIT**2) ** -1.5


@lru_cache
def row_levels(rank: int) -> tuple[Level, ...]:
    """Return the level of each kernel of whitened rows, in the usual units."""
    return _levels(RowViews(normal_rows(rank).unsqueeze(0)).whitened[0])


@lru_cache
def robust_levels(rank: int) -> tuple[Level, ...]:
    """Return the level of each kernel of whitened rows, compressed in robust units."""
    return _levels(compress(RowViews(normal_rows(rank).unsqueeze(0)).robust[0]))


def _levels(rows: Tensor) -> tuple[Level, ...]:
    squares = torch.cdist(rows, rows).square()
    gammas = [gamma / (2 * rows.shape[1]) for gamma in ROW_GAMMAS]
    return tuple(Level.of(torch.exp(-gamma * squares)) for gamma in gammas)


@lru_cache
def column_levels() -> tuple[Level, ...]:
    """Return the level of each kernel of single columns."""
    return tuple(Level.of(gram) for gram in _column_grams(COLUMN_GAMMAS, 0))


@lru_cache
def pair_levels() -> tuple[Level, ...]:
    """Return the level of each kernel of pairs of columns."""
    grams = zip(_column_grams(PAIR_GAMMAS, 0), _column_grams(PAIR_GAMMAS, 1), strict=True)
    return tuple(Level.of(one * two) for one, two in grams)


def normal_rows(columns: int) -> Tensor:
    """Return the reference sample, of which levels are: normal numbers, always the same."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(
        REFERENCE_PEOPLE, columns, generator=generator, dtype=torch.float64, device="cpu"
    )


def _column_grams(gammas: tuple[float, ...], column: int) -> list[Tensor]:
    places = compress(RowViews(normal_rows(2).unsqueeze(0)).whitened[0, :, column])
    frequencies, weights = spectrum(gammas)
    waves = torch.cos(frequencies[:, None, None] * (places[:, None] - places))
    return [torch.tensordot(own, waves, 1) for own in weights]


@lru_cache
def spectrum(gammas: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Return frequencies (f,) from 0 on, and the weights of each kernel, shape (kernels, f).

    The kernels are ``sum_f w_f cos(omega_f (x - y))``: Gaussian kernels by the trapezoidal rule,
    periodic, and kernels themselves. The weights of a kernel add up to 1.
    """
    step = 2 * math.pi / PERIOD
    count = math.ceil(REACH * (2 * max(gammas)) ** 0.5 / step) + 1
    frequencies = step * torch.arange(count, dtype=torch.float64, device="cpu")
    rows = []
    for gamma in gammas:
        density = torch.exp(-frequencies.square() / (4 * gamma))
        density[0] /= 2  # all others also stand for their negatives
        rows.append(density / density.sum())
    return frequencies, torch.stack(rows)
