"""Upper confidence bounds: from random draws to the exact value, and from people to a population.

McDiarmid's inequality gives the second. For groups of ``n_g`` independent people, the best balanced
accuracy ``F = (1 / G) * integral of max_g p_g`` of their mixtures changes by at most
``1 / (G n_g)`` if one person of group g is replaced, and ``F`` is convex, so its mean is at least
the value of the population. Hence with probability ``1 - delta`` the population's value is at most

    F + (1 / G) * sqrt(sum_g 1 / n_g * ln(1 / delta) / 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, sqrt

from torch import Tensor

from parafair.arguments import real_number, whole_number
from parafair.guarantees.groups import FEWEST

# The part of the error probability that is spent on the sample of people. Draws are cheap and
# people are not, so the draws get the small rest.
FOR_PEOPLE = 0.9

LEAST_DRAWS, MOST_DRAWS = 100, 10_000_000
# Less would need more people than there are.
LEAST_LEAKAGE = 1e-6


def upper_mean(values: Tensor, delta: float) -> float:
    """Return a number that the expected mean exceeds with a probability of at most `delta`.

    It is the smaller of two bounds, each at half of `delta`: Hoeffding's, and the empirical
    Bernstein bound of Maurer and Pontil, "Empirical Bernstein bounds and sample-variance
    penalization", 2009, which is smaller if the values vary little. Both hold for independent
    values that are not distributed alike, such as stratified draws: different means only add to
    the sample variance on average.

    Args:
        values: Independent numbers from 0 to 1, shape (n,) with n at least 2.
        delta: The probability.
    """
    n, mean = len(values), float(values.mean())
    hoeffding = sqrt(log(2 / delta) / (2 * n))
    spread = float(values.var())
    bernstein = sqrt(2 * spread * log(4 / delta) / n) + 7 * log(4 / delta) / (3 * (n - 1))
    return min(1.0, mean + min(hoeffding, bernstein))


def population_slack(sizes: Sequence[int], delta: float) -> float:
    """Return how far the best advantage in a population can be above that of a sample.

    Args:
        sizes: Number of people of each group in the sample.
        delta: Probability that it is further.
    """
    return sqrt(sum(1 / size for size in sizes) * log(1 / delta) / 2) / len(sizes)


def people_needed(
    leakage: float, *, groups: int = 2, confidence: float = 0.95, plug_in: float = 0.0
) -> int:
    """Return how many held-out people each group needs to certify a leakage for a population.

    This is the number at which the slack of the sample is ``leakage - plug_in``. The plug-in value
    itself is too high for few people, so more may be needed; it is never less.

    Args:
        leakage: The advantage over chance that is to be certified.
        groups: Number of groups.
        confidence: Probability with which the certificate is to hold.
        plug_in: The advantage in the mixtures of the held-out people themselves.

    >>> people_needed(0.05)
    311
    """
    leakage = real_number("leakage", leakage, least=LEAST_LEAKAGE, most=1)
    whole_number("groups", groups, least=2)
    delta = 1 - check_confidence(confidence)
    plug_in = real_number("plug_in", plug_in, least=0)
    room = leakage - plug_in
    if room <= 0:
        raise ValueError(
            f"plug_in={plug_in:g} is not below leakage={leakage:g}, so no number of people is "
            "enough; use more noise, a stronger penalty or a lower rank"
        )
    return max(FEWEST, ceil(log(1 / (FOR_PEOPLE * delta)) / (2 * groups * room**2)))


def check_confidence(confidence: float) -> float:
    """Return the confidence; raise unless it is a probability that can be certified."""
    found = real_number("confidence", confidence, least=0.5)
    if found > 1 - 1e-12:
        raise ValueError(
            f"confidence must be below 1, got {confidence!r}; nothing that is drawn is certain, "
            "use 0.95 or 0.999"
        )
    return found
