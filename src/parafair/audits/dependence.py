"""Measures of dependence besides the attackers: a permutation test and the paper's measures."""

from __future__ import annotations

from math import nan

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.audits import measures
from parafair.audits.inputs import INPUTS, InputColumns
from parafair.audits.result import Measure
from parafair.audits.trials import Plan
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion, PermutationTest
from parafair.threads import one_thread

# More people are sampled down: time grows with the square of their number.
MOST_TESTED = 2000


def dependence_rows(
    rows: NDArray[np.float64], column: Column, *, permutations: int, plan: Plan
) -> list[Measure]:
    """Test whether the rows and one feature are independent, by the invariant criterion."""
    people = SensitiveFeatures((column,)).sample(MOST_TESTED, np.random.RandomState(plan.seed))
    test = _test(rows[people], SensitiveFeatures((column.take(people),)), permutations, plan)
    return [
        Measure(
            column.name,
            "dependence",
            "criterion",
            test.statistic,
            chance=test.null_mean,
            about="1: the feature itself",
        ),
        Measure(
            column.name,
            "dependence",
            "independence p-value",
            test.p_value,
            about=f"{test.permutations} permutations, two-sided",
        ),
    ]


def _test(
    rows: NDArray[np.float64], sensitive: SensitiveFeatures, permutations: int, plan: Plan
) -> PermutationTest:
    """Return the criterion on all pairs of people, its mean under permutation and the p-value.

    It is the mean over the inputs of the attackers, so that no single person can distort it.
    """
    if not np.ptp(rows, axis=0).any():  # constant rows are independent of any feature
        return PermutationTest(0.0, 1.0, 0.0, permutations)
    criterion = Criterion(
        sensitive, torch.zeros(0, dtype=torch.float64, device="cpu"), chunk_size=len(sensitive)
    )
    with one_thread():
        views = [
            criterion.permuted(
                torch.from_numpy(InputColumns(form, precision=plan.precision).fit_transform(rows)),
                permutations=permutations,
                random_state=plan.seed,
            )
            for form in INPUTS
        ]
        return PermutationTest.of(torch.stack(views).mean(0))


def paper_rows(rows: NDArray[np.float64], column: Column, *, seed: int) -> list[Measure]:
    """Return the paper's measures; they use the columns as they are, so scale changes them."""
    if np.abs(rows).max(initial=0.0) > measures.LARGEST:
        about = "undefined: squares of the columns overflow"
        return [
            Measure(column.name, "paper", name, nan, about=about)
            for name in ("KHSIC", "normalized KHSIC", "orthogonality")
        ]
    sensitive = SensitiveFeatures((column,))
    found: list[tuple[str, float, float | None, str]] = []
    if column.kind == "categorical":
        with one_thread():
            network = measures.predict_groups(rows, sensitive_features=sensitive, random_state=seed)
        bound = measures.parity_bound(rows, sensitive_features=sensitive)
        about, split = "accuracy - 1 / groups", "one split"
        if np.isnan(network.accuracy):
            about = split = "undefined: the network diverged, the columns are too large for it"
        found += [
            ("unfairness", network.value, network.floor, about),
            ("network, balanced", network.balanced_accuracy, 1 / network.groups, split),
            ("parity bound", bound.paper, None, "as published; no bound"),
            ("largest group gap", bound.group_gap, None, "over the unit ball"),
        ]
    plain = [
        ("KHSIC", measures.khsic, ""),
        ("normalized KHSIC", measures.normalized_khsic, "0 to 1"),
        ("orthogonality", measures.orthogonality, "||A'S||"),
    ]
    found += [
        (name, measured(rows, sensitive_features=sensitive), None, how)
        for name, measured, how in plain
    ]
    return [
        Measure(column.name, "paper", measure, value, chance=chance, about=about)
        for measure, value, chance, about in found
    ]
