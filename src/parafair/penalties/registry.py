"""Penalties and postprocessing by name, as in ``method="khsic"``."""

from __future__ import annotations

from parafair.penalties.base import Penalty
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC
from parafair.penalties.orthogonality import Orthogonality
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching, Postprocessing
from parafair.penalties.transport import Transport

# To add a method, add its class here under its public name.
PENALTIES: dict[str, type[Penalty]] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
}
POSTPROCESSING: dict[str, type[Postprocessing]] = {
    "correlation-removal": CorrelationRemoval,
    "moment-matching": MomentMatching,
    "transport": Transport,
}
