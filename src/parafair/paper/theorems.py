"""The two theorems of the paper: its example for the first, a counterexample to the second."""

from __future__ import annotations

import numpy as np

from parafair.audits import measures
from parafair.paper.table import Row

THEOREM_COLUMNS = ("theorem", "what", "value")

# The matrix of the proof of Theorem 1 (its other columns are zero), and its two populations.
ROWS = np.array([1.0, 0, 0, -1, -1, 1])
GROUPS = np.array([1, 0, 0, 1, 1, 1])


def theorem_rows() -> list[Row]:
    """Return the numbers that the two theorems are judged by."""
    indicators = np.column_stack([GROUPS, 1 - GROUPS])
    guessed = (np.abs(ROWS) > 0.5).astype(int)
    # The embedding equals the sensitive feature, and A = B = {1} in Theorem 2.
    labels = np.repeat([0, 1], 50)
    share = labels.mean()
    found = [
        ("1", "orthogonality", float(np.linalg.norm(ROWS[:, None].T @ indicators))),
        ("1", "accuracy of the norm", float((guessed == GROUPS).mean())),
        (
            "1",
            "normalized KHSIC",
            measures.normalized_khsic(ROWS[:, None], sensitive_features=GROUPS),
        ),
        ("2", "rho", measures.khsic(labels[:, None], sensitive_features=labels)),
        ("2", "difference of probabilities", float(share - share**2)),
        (
            "2",
            "parity bound",
            measures.parity_bound(labels[:, None], sensitive_features=labels).paper,
        ),
        ("2", "lack of parity", float(1 - share)),
    ]
    return [{"theorem": t, "what": what, "value": value} for t, what, value in found]
