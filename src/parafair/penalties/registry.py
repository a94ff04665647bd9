"""Penalties and postprocessing by name, as in ``method="khsic"``."""

from __future__ import annotations

from parafair.penalties.base import Penalty, ScorePenalty
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC
from parafair.penalties.orthogonality import Orthogonality
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching, Postprocessing
from parafair.penalties.scores import Bhattacharyya, MeanMatching, MutualInformation
from parafair.penalties.sliced_transport import SlicedTransport
from parafair.penalties.transport import Transport

# To add a method, add its class here under its public name.
PENALTIES: dict[str, type[Penalty]] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
}
SCORE_PENALTIES: dict[str, type[ScorePenalty]] = {
    "mean-matching": MeanMatching,
    "bhattacharyya": Bhattacharyya,
    "mutual-information": MutualInformation,
}
POSTPROCESSING: dict[str, type[Postprocessing]] = {
    "correlation-removal": CorrelationRemoval,
    "moment-matching": MomentMatching,
    "transport": Transport,
    "sliced-transport": SlicedTransport,
}
