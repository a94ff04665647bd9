"""Penalties on the dependence between a factor and sensitive features."""

from __future__ import annotations

from parafair.penalties.base import (
    CalibratedPenalty,
    Dependence,
    NoisyPenalty,
    Penalty,
    ScaleFreePenalty,
    ScorePenalty,
)
from parafair.penalties.bound import (
    BoundAutograd,
    BoundInvariant,
    BoundPenalty,
    BoundQuadratic,
)
from parafair.penalties.bound_scores import BlockMeans, BoundMeans, BoundScores
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
from parafair.penalties.scores import Bhattacharyya, MeanMatching, MutualInformation
from parafair.penalties.sliced_transport import SlicedTransport
from parafair.penalties.transport import Transport

__all__ = [
    "HSIC",
    "KHSIC",
    "Bhattacharyya",
    "BlockMeans",
    "BoundAutograd",
    "BoundInvariant",
    "BoundKernel",
    "BoundMeans",
    "BoundPenalty",
    "BoundQuadratic",
    "BoundScores",
    "CalibratedPenalty",
    "CorrelationRemoval",
    "Decomposed",
    "Dependence",
    "Invariant",
    "MeanMatching",
    "MomentMatching",
    "MutualInformation",
    "NoisyPenalty",
    "Orthogonality",
    "Penalty",
    "Postprocessing",
    "ScaleFreePenalty",
    "ScorePenalty",
    "SlicedTransport",
    "Transport",
]
