"""Low-rank decompositions of tensors whose embedding of people hides sensitive features."""

from importlib.metadata import version

from parafair import datasets, kernels, metrics, penalties, solvers
from parafair.audit import Audit, audit
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning
from parafair.estimator import FairCP
from parafair.fit import Fit, Status, Stop
from parafair.problem import Problem
from parafair.sensitive import SensitiveFeatures
from parafair.tensors import CPTensor

__version__ = version("parafair")

__all__ = [
    "Audit",
    "CPTensor",
    "ConvergenceWarning",
    "FairCP",
    "Fit",
    "Interrupted",
    "ParafairWarning",
    "Problem",
    "SensitiveFeatures",
    "Status",
    "Stop",
    "audit",
    "datasets",
    "kernels",
    "metrics",
    "penalties",
    "solvers",
]
