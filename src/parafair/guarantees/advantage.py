"""(F): what the best possible attacker learns from one released row of these people.

For groups, the best attacker names the group with the largest density. Its balanced accuracy is
``(1 / G) * integral of max_g p_g``, which is the mean of the largest posterior probability over
draws that take every group equally often. For two groups, the advantage over chance is half the
total variation distance. For numbers, the best attacker answers with the posterior mean. The share
of the variance that it explains is the largest that any function of the row can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from parafair.guarantees.bounds import upper_mean
from parafair.guarantees.mixtures import draw_stratified, group_posteriors, posterior_means


class Sampled(NamedTuple):
    """A value from random draws.

    Attributes:
        estimate: The mean of the draws.
        upper: A bound that holds with the confidence asked for.
    """

    estimate: float
    upper: float


def best_advantage(
    rows: Tensor, codes: Tensor, *, draws: int, delta: float, generator: torch.Generator
) -> Sampled:
    """Return the best attacker's balanced accuracy above chance.

    Args:
        rows: Exact rows in units of the noise, shape (n, d).
        codes: The group of each person, from 0 on; none is empty. Shape (n,).
        draws: Number of draws, about; every group gets as many.
        delta: Probability with which the upper bound may be too low.
        generator: A generator on the CPU.
    """
    groups = int(codes.max()) + 1
    count = max(2, -(-draws // groups))
    points = [draw_stratified(rows[codes == g], count, generator) for g in range(groups)]
    best = group_posteriors(torch.cat(points), rows, codes).amax(1)
    # From 1 / G, a guess, to 1, certainty.
    share = ((groups * best - 1) / (groups - 1)).clamp(0, 1)
    most = 1 - 1 / groups
    return Sampled(most * float(share.mean()), most * upper_mean(share, delta))


def advantage_without_noise(rows: Tensor, codes: Tensor) -> float:
    """Return the best attacker's balanced accuracy above chance if there were no noise.

    Noise only takes away, so this bounds the advantage at any noise, without draws. It is small
    only if people of all groups share rows.

    Args:
        rows: Exact rows, shape (n, d). Those who share a row have exactly the same numbers.
        codes: The group of each person, from 0 on; none is empty. Shape (n,).
    """
    groups = int(codes.max()) + 1
    members = torch.nn.functional.one_hot(codes, groups).to(rows.device, torch.float64)
    counts, _ = _sums_of_places(rows, members)
    return float((counts / counts.sum(0)).amax(1).sum() - 1) / groups


def explained_without_noise(rows: Tensor, numbers: NDArray[np.float64]) -> float:
    """Return the share of the variance that any attacker explains if there were no noise.

    As `advantage_without_noise`, for a number and its ranks.

    Args:
        rows: Exact rows, shape (n, d).
        numbers: One number per person, shape (n,).
    """
    columns = _numbers_and_ranks(numbers, rows.double())
    sums, sizes = _sums_of_places(rows, columns)
    explained = (sums.square() / sizes[:, None]).sum(0) / columns.square().sum(0)
    return min(1.0, float(explained.max()))


def _sums_of_places(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return sums over people with equal rows, shape (places, columns), and how many there are."""
    _, places, sizes = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    sums = columns.new_zeros(len(sizes), columns.shape[1])
    return sums.index_add(0, places, columns), sizes


def _numbers_and_ranks(numbers: NDArray[np.float64], like: Tensor) -> Tensor:
    """Return a number and its ranks, both with the mean 0, shape (n, 2)."""
    targets = np.stack([numbers - numbers.mean(), rankdata(numbers)], 1)
    targets = (targets - targets.mean(0)) / np.abs(targets).max(0)
    return torch.from_numpy(targets).to(like)


def best_explained(
    rows: Tensor,
    numbers: NDArray[np.float64],
    *,
    draws: int,
    delta: float,
    generator: torch.Generator,
) -> Sampled:
    """Return the largest share of the variance of a number that any attacker explains.

    It is the larger of two: of the numbers and of their ranks. The mean of the posterior mean is
    known, so its variance is a mean of squares of draws.

    Args:
        rows: Exact rows in units of the noise, shape (n, d).
        numbers: One number per person, shape (n,).
        draws: Number of draws.
        delta: Probability with which the upper bound may be too low.
        generator: A generator on the CPU.
    """
    columns = _numbers_and_ranks(numbers, rows)
    points = draw_stratified(rows, max(2, draws), generator)
    means = posterior_means(points, rows, columns, torch.ones_like(rows[:, 0]))
    largest = columns.square().amax(0)
    found = [
        (float(most / variance), (squares / most).clamp(0, 1))
        for most, variance, squares in zip(
            largest, columns.square().mean(0), means.square().mT, strict=True
        )
    ]
    return Sampled(
        min(1.0, max(factor * float(share.mean()) for factor, share in found)),
        min(1.0, max(factor * upper_mean(share, delta / 2) for factor, share in found)),
    )
