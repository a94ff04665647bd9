"""(F) for very many people: from a sample of every group, with the error of the sample.

The best balanced accuracy is a convex function of the groups' mixtures, so a sample overstates that
of everybody on average: fewer people hide each other less. How far a sample can be below its mean
is bounded as for a population (see `parafair.guarantees.bounds`): the people of the release are the
population, and the sample is drawn from each group independently, with replacement.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.data.column import Column
from parafair.guarantees.advantage import Sampled, best_advantage
from parafair.guarantees.bounds import FOR_PEOPLE, population_slack
from parafair.guarantees.groups import codes_of


def sampled_advantage(
    z: Tensor,
    column: Column,
    *,
    people: int,
    draws: int,
    delta: float,
    generator: torch.Generator,
) -> tuple[Sampled, float]:
    """Return the best advantage among a sample, and how far that of everybody can be above it.

    Args:
        z: Exact rows in units of the noise, shape (n, d).
        column: The groups.
        people: Number of people of the sample; every group has the same share.
        draws: Random draws of the noise.
        delta: Probability that the advantage of everybody is larger than both together.
        generator: A generator on the CPU.
    """
    codes = codes_of(column, z)
    groups = int(codes.max()) + 1
    each = max(2, people // groups)
    places = []
    for group in range(groups):
        members = (codes == group).nonzero().flatten()
        drawn = torch.randint(len(members), (each,), generator=generator, device="cpu")
        places.append(members[drawn.to(members.device)])
    chosen = torch.cat(places)
    found = best_advantage(
        z[chosen],
        codes[chosen],
        draws=draws,
        delta=(1 - FOR_PEOPLE) * delta,
        generator=generator,
    )
    return found, population_slack([each] * groups, FOR_PEOPLE * delta)
