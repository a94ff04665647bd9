"""Low-rank decompositions of tensors whose embedding of people reveals less about them."""

import parafair.interrupts  # noqa: F401, I001  (first, because the other imports take seconds)

from typing import TYPE_CHECKING

from parafair.lazy import attach

# Names are imported when they are first used, because torch and scikit-learn take seconds. A new
# name goes in three places, which a test compares: here for type checkers, into `_NAMES` for
# Python, and into `__all__`.
if TYPE_CHECKING:
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
        interop,
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
    from parafair.audits import (
        Audit,
        Measure,
        Rankings,
        audit,
        audit_outputs,
        compare_scores,
        evaluate_rankings,
    )
    from parafair.data.sensitive import SensitiveFeatures
    from parafair.data.sorting import sort_parquet
    from parafair.data.splits import split_by_time, split_cells, split_people
    from parafair.data.tensor_data import TensorData
    from parafair.environment import show_versions
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
    from parafair.version import __version__ as __version__

_NAMES = {
    "algebra.cp_tensor": ["CPTensor"],
    "audits": [
        "Audit", "Measure", "Rankings", "audit", "audit_outputs", "compare_scores",
        "evaluate_rankings",
    ],
    "data.sensitive": ["SensitiveFeatures"],
    "data.sorting": ["sort_parquet"],
    "data.splits": ["split_by_time", "split_cells", "split_people"],
    "data.tensor_data": ["TensorData"],
    "environment": ["show_versions"],
    "errors": ["ConvergenceWarning", "Interrupted", "ParafairWarning"],
    "frontiers": ["Frontier", "frontier"],
    "guarantees": [
        "Certificate", "ParityLimit", "certify", "certify_rows", "parity_limit", "people_needed",
    ],
    "model.estimator": ["FairCP"],
    "model.tucker": ["FairTucker"],
    "model.tuning": ["Tuning", "tune"],
    "solvers.problem": ["Problem"],
    "solvers.result": ["Fit", "Status", "Stop"],
    "version": ["__version__"],
}  # fmt: skip

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
    "Rankings",
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
    "evaluate_rankings",
    "frontier",
    "frontiers",
    "guarantees",
    "interop",
    "losses",
    "model",
    "paper",
    "parity_limit",
    "penalties",
    "people_needed",
    "report",
    "show_versions",
    "solvers",
    "sort_parquet",
    "split_by_time",
    "split_cells",
    "split_people",
    "storage",
    "testing",
    "tune",
]

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = attach(__name__, _NAMES, set(__all__).difference(*_NAMES.values()))
