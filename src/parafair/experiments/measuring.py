"""What a row says of a fit: the paper's measures of its embedding, and what the audit found."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parafair import metrics
from parafair.audits.trials import one_thread
from parafair.errors import ParafairWarning
from parafair.experiments.table import COLUMNS, KEY, Row
from parafair.frontier import Point


def measure_embedding(
    rows: Tensor, sensitive: NDArray[np.int64], seed: int, network: Mapping[str, Any]
) -> Row:
    """Return the paper's measures of an embedding, with its classifier's split."""
    with one_thread(), warnings.catch_warnings():
        # The cell stays empty instead.
        warnings.filterwarnings("ignore", "the network of unfairness", ParafairWarning)
        found = metrics.unfairness(rows, sensitive, random_state=seed, **network)
        return {
            "orthogonality": metrics.orthogonality(rows, sensitive),
            "khsic": metrics.khsic(rows, sensitive),
            "normalized_khsic": metrics.normalized_khsic(rows, sensitive),
            "unfairness": found.value,
            "floor": found.floor,
            "balanced": found.balanced_accuracy - 1 / found.groups,
        }


def measure_point(point: Point) -> Row:
    """Return what the fit and the audit say; of a fit that diverged, that it did."""
    row = {name: None for name in COLUMNS if name not in KEY}
    audit, counts = point.audit, point.fit.counts
    if audit is None:
        return {**row, "strongest": "", "status": point.row()["status"]}
    found = {name: value for name, value in point.row().items() if name in row}
    return {
        **row,
        **found,
        "strongest": f"{audit.strongest.model} {audit.strongest.input}",
        "below_chance": audit.overfitted,
        "capped": counts["capped"] / counts["blocks"] if "capped" in counts else None,
    }
