"""Penalties: what a factor must pay for depending on sensitive features."""

from __future__ import annotations

from parafair.penalties.base import (
    BoundAutograd,
    BoundInvariant,
    BoundPenalty,
    BoundQuadratic,
    Penalty,
    restrict_rows,
    scale_strength,
)
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC, BoundKernel
from parafair.penalties.orthogonality import Orthogonality

__all__ = [
    "HSIC",
    "KHSIC",
    "BoundAutograd",
    "BoundInvariant",
    "BoundKernel",
    "BoundPenalty",
    "BoundQuadratic",
    "Invariant",
    "Orthogonality",
    "Penalty",
    "restrict_rows",
    "scale_strength",
]
