"""The ridge: shrinkage of rows with few entries, in units of entries."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, product_of
from parafair.arguments import real_number
from parafair.data.tensor_data import TensorData

# The default ridge, used if some index has fewer than ENTRIES_PER_COMPONENT entries per component.
DEFAULT_RIDGE = 3.0
ENTRIES_PER_COMPONENT = 10


def resolve_ridge(ridge: float | None, data: TensorData, rank: int) -> float:
    """Return the ridge; None means 0 if every row has enough entries, else `DEFAULT_RIDGE`."""
    if ridge is not None:
        real_number("ridge", ridge, least=0)
        return float(ridge)
    if data.observed == prod(data.shape):
        return 0.0
    counts = torch.cat([data.observations.counts(mode) for mode in range(data.order)])
    present = counts[counts > 0]
    enough = bool((present >= ENTRIES_PER_COMPONENT * rank).all())
    return 0.0 if enough else DEFAULT_RIDGE


def ridge_diagonal(factors: Factors, mode: int, people: int, ridge: float) -> Tensor | None:
    """Return the ridge's diagonal in the Gram matrices of a mode, shape (..., rank)."""
    if not ridge:
        return None
    others = [f.square().mean(-2) for other, f in enumerate(factors) if other != mode]
    share = factors[people].shape[-2] / factors[mode].shape[-2]
    return ridge * share * product_of(others)
