"""Penalties on the dependence between a factor and sensitive features."""

from __future__ import annotations

from parafair.penalties.base import (
    CalibratedPenalty,
    Dependence,
    NoisyPenalty,
    Penalty,
    ScaleFreePenalty,
)
from parafair.penalties.bound import (
    BoundAutograd,
    BoundInvariant,
    BoundPenalty,
    BoundQuadratic,
)
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC, BoundKernel
from parafair.penalties.orthogonality import Orthogonality
from parafair.penalties.postprocessing import (
    CorrelationRemoval,
    Decomposed,
    MomentMatching,
    Postprocessing,
)
from parafair.penalties.transport import Transport

__all__ = [
    "HSIC",
    "KHSIC",
    "BoundAutograd",
    "BoundInvariant",
    "BoundKernel",
    "BoundPenalty",
    "BoundQuadratic",
    "CalibratedPenalty",
    "CorrelationRemoval",
    "Decomposed",
    "Dependence",
    "Invariant",
    "MomentMatching",
    "NoisyPenalty",
    "Orthogonality",
    "Penalty",
    "Postprocessing",
    "ScaleFreePenalty",
    "Transport",
]
