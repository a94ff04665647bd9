"""The ridge: shrinkage of rows with few entries, in units of entries."""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, product_of


def ridge_diagonal(factors: Factors, mode: int, people: int, ridge: float) -> Tensor | None:
    """Return the ridge's diagonal in the Gram matrices of a mode, shape (..., rank)."""
    if not ridge:
        return None
    others = [f.square().mean(-2) for other, f in enumerate(factors) if other != mode]
    share = factors[people].shape[-2] / factors[mode].shape[-2]
    return ridge * share * product_of(others)


def ridge_value(factors: Factors, people: int, ridge: float) -> Tensor:
    """Return the squared error on the ridge's extra entries, in double precision, (batch,)."""
    if not ridge:
        return factors[0].new_zeros(len(factors[0]), dtype=torch.float64)
    sizes = product_of([factor.double().square().mean(-2) for factor in factors])
    return ridge * factors[people].shape[-2] * sizes.sum(-1)
