"""How sure an attacker can be about each person: a small average must not hide a few.

Two attackers are asked. The one of threat (b) holds all exact rows with their groups, and sees the
person's released row. The one of threat (a) sees the released rows of everybody and the groups of
all other people, and lets the nearby people vote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.algebra.devices import by_device, tile_of
from parafair.dependence.whitening import Standardized
from parafair.guarantees.mixtures import draw_noise, group_posteriors

# Draws of the noise of each person, at least and at most.
LEAST_EACH, MOST_EACH = 2, 64
# Widths of the neighborhood: each is half of the one before.
WIDTHS = 6
# People about whom the vote is asked, and people up to whom groups are also permuted.
MOST_ASKED = {"cpu": 5000, "cuda": 200_000}
MOST_PERMUTED = 20_000
PERMUTATIONS = 19  # the largest of 19 is exceeded by chance in one of 20 cases
TILE = {"cpu": 2**20, "cuda": 2**26}
MEDIAN_ROWS = 1000
PERCENTILE = 95
BINS = 20  # of the distribution over people


@dataclass(frozen=True, eq=False)
class Exposure:
    """How sure an attacker is about each person's group: the probability of the likeliest.

    Attributes:
        column: The feature.
        threat: "b" for the holder of the exact rows, "a" for the vote of the other people.
        chance: The probability of a guess, 1 / groups.
        largest: The largest of all people.
        percentile: The 95th percentile.
        advantage: For "a", the balanced accuracy of the vote above chance, turned around if it is
            below; None for "b".
        by_chance: For "a", what this advantage reaches in one of 20 random assignments of the
            groups; None if it was not computed.
        counts: How many people have an exposure in each of `BINS` equal parts of the range from
            chance to 1; empty if it is not known.
        values: One number per person, shape (n,), NaN for those who were not asked; None if it was
            read from a file.
    """

    column: str
    threat: str
    chance: float
    largest: float
    percentile: float
    advantage: float | None = None
    by_chance: float | None = None
    counts: tuple[int, ...] = ()
    values: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, column: str, threat: str, chance: float, values: Any, **more: Any) -> Exposure:
        """Return an exposure with its largest value and percentile."""
        found = values[~np.isnan(values)]
        return cls(
            column,
            threat,
            chance,
            float(found.max()),
            float(np.percentile(found, PERCENTILE)),
            # Rounding may put a value just below chance.
            counts=tuple(np.histogram(found.clip(chance, 1), BINS, (chance, 1))[0].tolist()),
            values=values,
            **more,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those of single people."""
        return {name: value for name, value in vars(self).items() if name != "values"}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Exposure:
        """Return an exposure from the result of `to_dict`."""
        return cls(**{**record, "counts": tuple(map(int, record["counts"]))})


def exposure_to_holder(
    rows: Tensor, codes: Tensor, *, draws: int, generator: torch.Generator
) -> NDArray[np.float64]:
    """Return ``E max_g P(g | released row)`` over the noise of each person, shape (n,).

    Args:
        rows: Exact rows in units of the noise, shape (n, d).
        codes: The group of each person, from 0 on; none is empty. Shape (n,).
        draws: Number of draws of all people together, about.
        generator: A generator on the CPU.
    """
    each = draws_each(draws, len(rows))
    total = rows.new_zeros(len(rows))
    for _ in range(each):
        points = rows + draw_noise(tuple(rows.shape), rows, generator)
        total += group_posteriors(points, rows, codes).amax(1)
    return np.asarray((total / each).cpu())


def draws_each(draws: int, people: int) -> int:
    """Return how many times the noise of each person is drawn."""
    return min(MOST_EACH, max(LEAST_EACH, draws // people))


@dataclass(frozen=True, eq=False)
class Vote:
    """The vote of the other people about each person.

    Attributes:
        values: The share of the votes for the likeliest group, shape (n,); NaN if not asked.
        advantage: Balanced accuracy above chance, turned around if it is below; at the width at
            which it is largest.
        by_chance: The largest of random assignments of the groups; None for many people.
    """

    values: NDArray[np.float64]
    advantage: float
    by_chance: float | None


def leave_one_out_vote(released: Tensor, codes: Tensor, generator: torch.Generator) -> Vote:
    """Ask all other people about each one, by a Gaussian kernel of whitened released rows.

    Args:
        released: The released rows, shape (n, d).
        codes: The group of each person, from 0 on; none is empty. Shape (n,).
        generator: A generator on the CPU.
    """
    n, groups = len(released), int(codes.max()) + 1
    rows = Standardized.of(released).whitened
    most = by_device(MOST_ASKED, rows)
    asked = torch.randperm(n, generator=generator, device="cpu")[:most].sort().values
    permutations = PERMUTATIONS if n <= MOST_PERMUTED else 0
    orders = [torch.arange(n, device="cpu")]
    orders += [torch.randperm(n, generator=generator, device="cpu") for _ in range(permutations)]
    assigned = torch.stack([codes.cpu()[order] for order in orders]).to(rows.device)
    members = torch.nn.functional.one_hot(assigned, groups).to(rows)  # (1 + permutations, n, g)
    shares = _votes(rows, members, asked.to(rows.device))  # (widths, 1 + permutations, asked, g)
    own = assigned[:, asked.to(rows.device)]
    right = (shares.argmax(-1) == own).to(rows)
    counts = torch.nn.functional.one_hot(own, groups).to(rows)
    accuracies = (right.unsqueeze(-1) * counts).sum(-2) / counts.sum(-2).clamp_min(1)
    above = accuracies.mean(-1) - 1 / groups
    # Whoever turns the answers around picks one of the other groups.
    gains = torch.maximum(above, -above / (groups - 1))
    width = int(gains[:, 0].argmax())
    values = np.full(n, np.nan)
    values[asked.numpy()] = shares[width, 0].amax(-1).cpu().numpy()
    largest = gains.amax(0).cpu()
    by_chance = float(largest[1:].max()) if permutations else None
    return Vote(values, float(largest[0]), by_chance)


def _votes(rows: Tensor, members: Tensor, asked: Tensor) -> Tensor:
    """Return the share of the votes for each group, at every width and for every assignment."""
    count, n, groups = members.shape
    flat = members.permute(1, 0, 2).reshape(n, count * groups)
    sizes = members.sum(1)  # (count, g)
    gamma = 1 / (2 * max(_median_square(rows), 1e-300))
    found = []
    for part in asked.split(max(1, tile_of(TILE, rows) // n)):
        squares = torch.cdist(rows[part], rows).square_()
        squares.scatter_(1, part[:, None], torch.inf)  # nobody votes about oneself
        # Relative to the nearest person: the kernel must not vanish everywhere.
        kernel = squares.sub_(squares.amin(1, keepdim=True)).mul_(-gamma).exp_()
        others = sizes.unsqueeze(1) - members[:, part]
        widths = []
        for width in range(WIDTHS):
            if width:
                kernel = kernel.square_().square_()  # half of the width
            votes = (kernel @ flat).reshape(len(part), count, groups).permute(1, 0, 2)
            votes = votes / others.clamp_min(1)
            widths.append(votes / votes.sum(-1, keepdim=True))
        found.append(torch.stack(widths))
    return torch.cat(found, 2)


def _median_square(rows: Tensor) -> float:
    """Return the median squared distance of some people."""
    some = rows[:: max(1, len(rows) // MEDIAN_ROWS)]
    squares = torch.pdist(some).square()
    return float(squares.median()) if len(squares) else 0.0
