"""Known Gaussian mixtures: the law of a released row of a group, and what a row reveals.

In units of the noise, a released row of a random person of group g has the density
``p_g = mean over i in g of N(z_i, I)``. Nothing about it is estimated. What an attacker can know
follows from sums of kernels, which are computed tile by tile in log space.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.devices import by_device, tile_of

# Entries of a tile, people times drawn rows.
TILE = {"cpu": 2**17, "cuda": 2**26}
# People in a tile, at most.
TILE_PEOPLE = {"cpu": 1024, "cuda": 2**15}
# Products of rows beyond this size lose digits, and differences are computed instead.
LARGEST_PRODUCT = 1e6


def posterior_means(points: Tensor, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """Return ``E[column | released row]`` at some points, shape (m, c).

    With weights ``w_i`` of the people, this is ``sum_i w_i k_i c_i / sum_i w_i k_i`` with
    ``k_i = exp(-|x - z_i|**2 / 2)``.

    Args:
        points: Rows ``x`` as they could be released, shape (m, d).
        rows: Exact rows ``z``, in units of the noise, shape (n, d).
        columns: What is averaged, shape (n, c).
        weights: How probable each person is beforehand, up to a factor, shape (n,).

    Returns:
        Means that can be differentiated in points and rows.
    """
    width = min(len(rows), by_device(TILE_PEOPLE, rows))
    height = max(1, tile_of(TILE, rows) // width)
    values = torch.cat([columns, torch.ones_like(columns[:, :1])], 1) * weights[:, None]
    large = bool(rows.square().sum(1).max() > LARGEST_PRODUCT) if len(rows) else False
    halves = rows.square().sum(1) / 2
    found = [
        _weighted_mean(part, rows, values, None if large else halves, width)
        for part in points.split(height)
    ]
    return torch.cat(found)


def _weighted_mean(
    points: Tensor, rows: Tensor, values: Tensor, halves: Tensor | None, width: int
) -> Tensor:
    """Return the means at the points of one tile, one tile of people after the other.

    The largest exponent so far is subtracted, so that the sums neither overflow nor vanish.
    """
    top = points.new_full((len(points), 1), -torch.inf)
    total = points.new_zeros(len(points), values.shape[1])
    for start in range(0, len(rows), width):
        part = slice(start, start + width)
        if halves is None:
            mode = "donot_use_mm_for_euclid_dist"
            exponents = torch.cdist(points, rows[part], compute_mode=mode).square().mul_(-0.5)
        else:  # without |x|**2 / 2, a constant for each point
            exponents = torch.addmm(halves[part], points, rows[part].mT, beta=-1)
        # Detached: it cancels, so the means stay differentiable.
        higher = torch.maximum(top, exponents.detach().amax(1, keepdim=True))
        total = total * torch.exp(top - higher)
        total.addmm_(exponents.sub_(higher).exp_(), values[part])
        top = higher
    return total[:, :-1] / total[:, -1:]


def group_posteriors(points: Tensor, rows: Tensor, codes: Tensor) -> Tensor:
    """Return the probability of each group at some points, if all are equally likely before.

    Args:
        points: Rows as they could be released, shape (m, d).
        rows: Exact rows in units of the noise, shape (n, d).
        codes: The group of each person, from 0 on; none is empty. Shape (n,).

    Returns:
        ``p_g / sum of all p``, shape (m, groups).
    """
    groups = int(codes.max()) + 1
    members = torch.nn.functional.one_hot(codes, groups).to(rows)
    weights = 1 / members.sum(0)[codes]
    return posterior_means(points, rows, members, weights)


def draw_stratified(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw released rows of random people, shape (count, d).

    The draw k takes a person at a place between ``k / count`` and ``(k + 1) / count`` of the list.
    The draws are independent, and their mean has the expectation of a draw of a random person, but
    less variance.

    Args:
        rows: Exact rows in units of the noise, shape (n, d).
        count: Number of draws.
        generator: On the CPU, so that the draws are the same for all devices.
    """
    places = torch.rand(count, generator=generator, dtype=torch.float64, device="cpu")
    places = (places + torch.arange(count, device="cpu")) / count * len(rows)
    people = places.long().clamp_max(len(rows) - 1).to(rows.device)
    return rows[people] + draw_noise((count, rows.shape[1]), rows, generator)


def draw_noise(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Return standard normal numbers, the same on all devices."""
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(like)
