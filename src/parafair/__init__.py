"""Low-rank decompositions of tensors whose embedding of people reveals less about them."""

from importlib.metadata import version

from parafair import adjustments, datasets, evaluation, kernels, metrics, penalties, solvers
from parafair.audits import Audit, Measure, audit
from parafair.data import TensorData
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning
from parafair.estimator import FairCP
from parafair.fit import Fit, Status, Stop
from parafair.frontier import Frontier, frontier
from parafair.limits import ParityLimit, parity_limit
from parafair.problem import Problem
from parafair.sensitive import SensitiveFeatures
from parafair.splits import split_cells, split_people
from parafair.tensors import CPTensor
from parafair.tuning import Tuning, tune

__version__ = version("parafair")

__all__ = [
    "Audit",
    "CPTensor",
    "ConvergenceWarning",
    "FairCP",
    "Fit",
    "Frontier",
    "Interrupted",
    "Measure",
    "ParafairWarning",
    "ParityLimit",
    "Problem",
    "SensitiveFeatures",
    "Status",
    "Stop",
    "TensorData",
    "Tuning",
    "adjustments",
    "audit",
    "datasets",
    "evaluation",
    "frontier",
    "kernels",
    "metrics",
    "parity_limit",
    "penalties",
    "solvers",
    "split_cells",
    "split_people",
    "tune",
]
