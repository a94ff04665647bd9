"""Generated counts and events with known groups, for losses other than squared errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import real_number
from parafair.datasets.base import Dataset, register
from parafair.datasets.generated import check_generated

GROUPS = ("quiet", "active")
# The difference of the groups in the first component, in standard deviations.
SHIFT = 1.5
# Mean and standard deviation of the predictors.
LOG_RATES, LOG_ODDS = (0.5, 0.8), (-1.0, 2.0)
COUNTS = (
    "Counts of two groups of equal size, with rates that are the exponential of a tensor of low "
    "rank; one group is more active in one component; generated"
)
EVENTS = (
    "Events (0 or 1) of two groups of equal size, with log-odds that are a tensor of low rank; one "
    "group is more active in one component; generated"
)


@register(COUNTS)
def counts(
    seed: int = 0,
    *,
    shape: tuple[int, ...] = (200, 30, 30),
    rank: int = 3,
    inflation: float = 0.0,
) -> Dataset:
    """Generate counts from a Poisson model with a logarithmic link.

    The logarithms of the rates are an intercept plus ``[[A, B, C, ...]]``, with mean 0.5 and
    standard deviation 0.8. Rows of ``A`` are standard normal, and those of the group "active" are
    1.5 higher in the first component. All other factors are drawn from U(0, 1). Zeros are data.

    Args:
        seed: Seed of the random numbers.
        shape: Sizes of the modes; the first is the sensitive one.
        rank: Number of components.
        inflation: Share of the entries that are 0 whatever their rate, from 0 to 1.

    >>> data = counts(0, shape=(6, 4, 3), rank=2)
    >>> data.tensor[0, 0].tolist(), data.sensitive_features.tolist()[2:4]
    ([4.0, 1.0, 2.0], ['quiet', 'active'])
    """
    share = real_number("inflation", inflation, least=0, most=1)
    predictors, random = _predictors(seed, shape, rank, *LOG_RATES)
    tensor = random.poisson(np.exp(predictors)).astype(np.float64)
    tensor[random.random(tensor.shape) < share] = 0
    return _dataset("counts", COUNTS, tensor)


@register(EVENTS)
def events(seed: int = 0, *, shape: tuple[int, ...] = (200, 30, 30), rank: int = 3) -> Dataset:
    """Generate events, 0 or 1, from a Bernoulli model with a logistic link.

    The log-odds are an intercept plus ``[[A, B, C, ...]]``, with mean -1 and standard deviation 2.
    Rows of ``A`` are standard normal, and those of the group "active" are 1.5 higher in the first
    component. All other factors are drawn from U(0, 1). Zeros are data.

    Args:
        seed: Seed of the random numbers.
        shape: Sizes of the modes; the first is the sensitive one.
        rank: Number of components.

    >>> data = events(0, shape=(6, 4, 3), rank=2)
    >>> data.tensor[5, 3].tolist(), data.sensitive_features.tolist()[2:4]
    ([0.0, 1.0, 0.0], ['quiet', 'active'])
    """
    predictors, random = _predictors(seed, shape, rank, *LOG_ODDS)
    tensor = random.random(predictors.shape) < 1 / (1 + np.exp(-predictors))
    return _dataset("events", EVENTS, tensor.astype(np.float64))


def _predictors(
    seed: int, shape: tuple[int, ...], rank: int, mean: float, deviation: float
) -> tuple[NDArray[np.float64], np.random.Generator]:
    """Return predictors with this mean and deviation, and what draws the entries."""
    shape, rank = check_generated(seed, shape, rank)
    random = np.random.default_rng(seed)
    people = random.standard_normal((shape[0], rank))
    people[shape[0] // 2 :, 0] += SHIFT
    product = people
    for size in shape[1:]:
        product = product[..., None, :] * random.uniform(size=(size, rank))
    signal = product.sum(-1)
    return mean + deviation * (signal - signal.mean()) / signal.std(), random


def _dataset(name: str, about: str, tensor: NDArray[np.float64]) -> Dataset:
    half = len(tensor) // 2
    return Dataset(
        name=name,
        about=about,
        tensor=tensor,
        sensitive_features=np.repeat(GROUPS, [half, len(tensor) - half]),
        modes=("person", *(f"mode_{mode}" for mode in range(1, tensor.ndim))),
    )
