"""Measures of dependence beside the attackers: a permutation test, and the paper's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parafair import metrics
from parafair.audits.inputs import Columns
from parafair.audits.result import Measure
from parafair.audits.trials import one_thread
from parafair.errors import ParafairWarning
from parafair.independence import PermutationTest, permutation_test
from parafair.sensitive import Column, SensitiveFeatures


def _dependence(
    rows: NDArray[Any], sensitive: SensitiveFeatures, permutations: int, seed: int
) -> PermutationTest:
    """Return the criterion on whitened rows, its level under independence and the p-value."""
    if np.ptp(rows, axis=0).max() == 0:  # nothing can depend on what is the same for everybody
        return PermutationTest(0.0, 1.0, 0.0, permutations)
    whitened = torch.from_numpy(rows)
    encoded = sensitive.encode(like=whitened)
    return permutation_test(whitened, encoded, permutations=permutations, random_state=seed)


def dependence_rows(
    rows: NDArray[Any], column: Column, *, precision: float, permutations: int, seed: int
) -> list[Measure]:
    """Test whether whitened rows and one feature are independent."""
    whitened = Columns(whiten=True, precision=precision).fit_transform(rows)
    test = _dependence(whitened, SensitiveFeatures((column,)), permutations, seed)
    return [
        Measure(
            column.name,
            "dependence",
            "dependence",
            test.statistic,
            chance=test.null_mean,
            about="HSIC of whitened rows",
        ),
        Measure(
            column.name,
            "dependence",
            "independence p-value",
            test.p_value,
            about=f"{test.permutations} permutations",
        ),
    ]


def paper_rows(rows: NDArray[Any], column: Column, *, seed: int) -> list[Measure]:
    """Return the paper's measures, which see the columns as they are and change with scale."""
    sensitive = SensitiveFeatures((column,))
    found: list[tuple[str, float, float | None, str]] = []
    if column.kind == "categorical":
        with one_thread(), warnings.catch_warnings():
            # The row says it instead.
            warnings.filterwarnings("ignore", "the network of unfairness", ParafairWarning)
            network = metrics.unfairness(rows, sensitive, random_state=seed)
        bound = metrics.parity_bound(rows, sensitive)
        about = "accuracy - even guess"
        if np.isnan(network.accuracy):
            about = "the network diverged: the columns are too large for it"
        found += [
            ("unfairness", network.value, network.floor, about),
            ("network, balanced", network.balanced_accuracy, 1 / network.groups, "one split"),
            ("parity bound", bound.paper, None, "as printed; not a bound, see docs"),
            ("largest group gap", bound.group_gap, None, "of unit-ball functions"),
        ]
    found += [
        ("KHSIC", metrics.khsic(rows, sensitive), None, ""),
        ("normalized KHSIC", metrics.normalized_khsic(rows, sensitive), None, "0 to 1"),
        ("orthogonality", metrics.orthogonality(rows, sensitive), None, "||A'S||"),
    ]
    return [
        Measure(column.name, "paper", measure, value, chance=chance, about=about)
        for measure, value, chance, about in found
    ]
