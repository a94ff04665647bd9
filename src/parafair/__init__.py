"""Low-rank decompositions of tensors whose embedding of people reveals less about them."""

from importlib.metadata import version

import parafair.interrupts  # noqa: F401  (first, because the other imports take seconds)
from parafair import (
    algebra,
    audits,
    data,
    datasets,
    dependence,
    encoders,
    errors,
    frontiers,
    guarantees,
    losses,
    model,
    paper,
    penalties,
    report,
    solvers,
    storage,
    testing,
)
from parafair.algebra.cp_tensor import CPTensor
from parafair.audits import Audit, Measure, audit, audit_outputs, compare_scores
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.sorting import sort_parquet
from parafair.data.splits import split_cells, split_people
from parafair.data.tensor_data import TensorData
from parafair.errors import ConvergenceWarning, Interrupted, ParafairWarning
from parafair.frontiers import Frontier, frontier
from parafair.guarantees import (
    Certificate,
    ParityLimit,
    certify,
    certify_rows,
    parity_limit,
    people_needed,
)
from parafair.model.estimator import FairCP
from parafair.model.tucker import FairTucker
from parafair.model.tuning import Tuning, tune
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop

__version__ = version("parafair")

__all__ = [
    "Audit",
    "CPTensor",
    "Certificate",
    "ConvergenceWarning",
    "FairCP",
    "FairTucker",
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
    "algebra",
    "audit",
    "audit_outputs",
    "audits",
    "certify",
    "certify_rows",
    "compare_scores",
    "data",
    "datasets",
    "dependence",
    "encoders",
    "errors",
    "frontier",
    "frontiers",
    "guarantees",
    "losses",
    "model",
    "paper",
    "parity_limit",
    "penalties",
    "people_needed",
    "report",
    "solvers",
    "sort_parquet",
    "split_cells",
    "split_people",
    "storage",
    "testing",
    "tune",
]
