"""The noise that would do: a search for the least at which the best attacker learns little."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parafair.arguments import real_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.whitening import spread_basis
from parafair.guarantees.advantage import best_advantage
from parafair.guarantees.groups import as_groups, check_features, codes_of
from parafair.guarantees.releases import Release, read_people

# The leakage for which notes and errors say what would be needed.
USUAL_LEAKAGE = 0.05
# A search for the noise that would do: draws, people, and steps that each halve the interval.
SEARCH_DRAWS, SEARCH_PEOPLE, SEARCH_STEPS = 2000, 2000, 10
# Least and most noise that is searched, as shares of the spread.
LEAST_SEARCHED, MOST_SEARCHED = 0.01, 10.0


def noise_for(rows: Any, sensitive_features: Any, *, leakage: float = USUAL_LEAKAGE) -> float:
    """Return about the least noise with which (F) is at most `leakage`.

    It is a share of the standard deviation of the rows in every whitened direction, as in
    ``FairCP(noise=...)``. It is a suggestion from a sample of people and draws: certify the result.

    Args:
        rows: Rows without noise, shape (n, columns).
        sensitive_features: One row per person; numbers are cut into groups.
        leakage: The wanted advantage over chance.

    Raises:
        ValueError: If even ten times the spread does not suffice.
    """
    leakage = real_number("leakage", leakage, above=0, most=1)
    exact, features = read_people(rows, sensitive_features)
    check_features(features)
    found = least_noise(exact, features, leakage)
    if found == inf:
        raise ValueError(
            f"leakage={leakage:g} needs noise of more than {MOST_SEARCHED:g} times the spread of "
            "rows; reduce the dependence first, for example with method='transport', or use a "
            "larger leakage"
        )
    return found


def least_noise(exact: Tensor, features: SensitiveFeatures, leakage: float) -> float:
    """Return the noise of `noise_for`; infinite if even `MOST_SEARCHED` does not suffice."""
    random = np.random.RandomState(0)
    some = features.sample(SEARCH_PEOPLE, random)
    part, theirs = exact[torch.from_numpy(some).to(exact.device)], features.take(some)
    columns = [as_groups(column) for column in theirs.columns]

    def enough(level: float) -> bool:
        release = Release(part, level * spread_basis(exact), theirs)
        z = release.in_units_of_noise()
        found = (
            best_advantage(
                z,
                codes_of(column, z),
                draws=SEARCH_DRAWS,
                delta=0.5,
                generator=torch.Generator(device="cpu").manual_seed(0),
            )
            for column in columns
        )
        return all(sampled.estimate <= leakage for sampled in found)

    low, high = np.log([LEAST_SEARCHED, MOST_SEARCHED])
    if not enough(float(np.exp(high))):
        return inf
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))
