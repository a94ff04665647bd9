"""The time of an audit, attacker by attacker.

Run with ``python -m benchmarks.run audit_time``.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time
from typing import Any
from unittest.mock import patch

import torch
from sklearn.ensemble import RandomForestClassifier

from parafair import audit
from parafair.audits import ATTACKERS, Attacker
from parafair.testing import example_groups, example_rows

Row = dict[str, object]

FOREST = Attacker(
    lambda seed: RandomForestClassifier(
        100, class_weight="balanced", min_samples_leaf=2, random_state=seed
    ),
    None,
    inputs=ATTACKERS["forest"].inputs,
)


def audit_time() -> Iterable[Row]:
    """One audit of 200 people, rank 8, two groups: seconds of one processor, by attacker.

    "slower" is the same attacker in a simpler way: scikit-learn's forest, and networks that are
    trained one by one.
    """
    torch.set_num_threads(1)
    for name in ATTACKERS:
        row: Row = {"attacker": name, "seconds": _seconds([name]), "slower": None}
        if name == "forest":
            row["slower"] = _seconds({name: FOREST})
        if name.endswith("network"):
            with patch("parafair.audits.networks.BATCH_BYTES", 0):
                row["slower"] = _seconds([name])
        yield row
    yield {"attacker": "all, and 200 permutations", "seconds": _seconds(None, 200), "slower": None}


def _seconds(attackers: Any, permutations: int = 1) -> float:
    """Return the processor time of the faster of two audits."""
    groups = example_groups(200, seed=1)[:, 0].numpy()
    rows = example_rows(200, 8, seed=0).numpy()
    rows[:, 0] += 0.8 * groups
    times = []
    for _ in range(2):
        begin = process_time()
        audit(rows, sensitive_features=groups, attackers=attackers, permutations=permutations)
        times.append(process_time() - begin)
    return min(times)
