"""The paper's synthetic data: two populations with different embeddings."""

from __future__ import annotations

import numpy as np

from parafair.datasets.base import Dataset, register
from parafair.datasets.generated import check_generated

GROUPS = ("normal", "uniform")
ABOUT = (
    "Two populations of equal size with different embeddings, as in the appendix of Kim and "
    "Gittens; generated, exact rank, no noise"
)


@register(ABOUT)
def synthetic(
    seed: int = 0, *, shape: tuple[int, ...] = (200, 100, 100), rank: int = 10
) -> Dataset:
    """Generate the synthetic data of the paper, at any size and order.

    The first half of the rows of ``A`` is drawn from a normal distribution with mean
    ``(1, ..., rank)`` and variances falling linearly from 1 to 1/rank, the second half from
    U(0, 1); all other factors from U(0, 1). The tensor is ``[[A, B, C, ...]]`` without noise,
    and the sensitive feature is the distribution a row came from.

    Args:
        seed: Seed of the random numbers.
        shape: Sizes of the modes; the first is the sensitive one.
        rank: Number of components.

    >>> data = synthetic(0, shape=(6, 4, 3), rank=2)
    >>> data.tensor.shape, data.sensitive_features.tolist()
    ((6, 4, 3), ['normal', 'normal', 'normal', 'uniform', 'uniform', 'uniform'])
    """
    shape, rank = check_generated(seed, shape, rank)
    random = np.random.default_rng(seed)
    n = shape[0]
    half = n // 2
    mean, variance = np.arange(1, rank + 1), np.arange(rank, 0, -1) / rank
    people = np.vstack(
        [
            mean + np.sqrt(variance) * random.standard_normal((half, rank)),
            random.uniform(size=(n - half, rank)),
        ]
    )
    factors = [people, *(random.uniform(size=(size, rank)) for size in shape[1:])]
    tensor = factors[0]
    for factor in factors[1:]:
        tensor = tensor[..., None, :] * factor
    return Dataset(
        name="synthetic",
        about=ABOUT,
        tensor=tensor.sum(-1),
        sensitive_features=np.repeat(GROUPS, [half, n - half]),
        modes=("person", *(f"mode_{mode}" for mode in range(1, len(shape)))),
    )
