"""What losses with a logistic curve have in common: ``count * ln(1 + e**m) - x * m``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from parafair.losses.base import INSIDE


def value_and_slope(count: Tensor | float, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``count * ln(1 + e**m) - x * m`` and its derivative."""
    # Beyond the threshold, ln(1 + e**m) is m up to rounding.
    return count * softplus(model, threshold=40.0) - values * model, _times(
        count, model.sigmoid()
    ) - values


def weight(count: Tensor | float, model: Tensor) -> Tensor:
    """Return Jaakkola and Jordan's weight, ``count * tanh(m / 2) / (2 m)``; 1/4 at zero.

    Jaakkola and Jordan, "Bayesian parameter estimation via variational methods", 2000.
    """
    size = model.abs()
    # Near zero, the first terms of its series.
    near = 0.25 - size.square() / 48
    return count * torch.where(size < 1e-2, near, (size / 2).tanh() / (2 * size.clamp_min(1e-2)))


def curvature(count: Tensor | float, model: Tensor) -> Tensor:
    """Return the second derivative, ``count * p (1 - p)``."""
    share = model.sigmoid()
    return count * (share * (1 - share))


def entropy(count: Tensor | float, values: Tensor) -> Tensor:
    """Return the smallest value of any model, that at ``p = x / count``."""
    total = torch.as_tensor(count, dtype=values.dtype, device=values.device)
    rest = total - values
    return total.xlogy(total) - values.xlogy(values) - rest.xlogy(rest)


def logit(share: Tensor) -> Tensor:
    """Return the logarithm of the odds; shares of 0 and 1 are moved inside."""
    return share.clamp(INSIDE, 1 - INSIDE).logit()


def _times(count: Tensor | float, share: Tensor) -> Tensor:
    return share if isinstance(count, float) and count == 1.0 else count * share
