"""The row of a fit: the paper's measures of its embedding, and the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.audits import audit, measures
from parafair.paper.config import Item
from parafair.paper.table import COLUMNS, Row
from parafair.solvers.result import Fit, Status
from parafair.threads import one_thread


@dataclass(frozen=True, eq=False)
class Measuring:
    """How fits to one data set are measured.

    Attributes:
        sensitive: 0 or 1 for each person.
        audits: Settings of the audit.
        network: Settings of the paper's classifier.
    """

    sensitive: NDArray[np.int64]
    audits: Mapping[str, Any]
    network: Mapping[str, Any]

    def row(self, item: Item, fit: Fit) -> Row:
        """Return the row of a fit; the row of a diverged fit has only its status."""
        row: Row = {**dict.fromkeys(COLUMNS), **asdict(item), "strongest": ""}
        row["status"] = fit.status.name.lower()
        if fit.status is Status.DIVERGED:
            return row
        counts = fit.counts
        row["residual"] = fit.residual
        row["capped"] = counts["capped"] / counts["blocks"] if "capped" in counts else None
        embedding = fit.cp.factors[0].numpy()
        return row | self._paper(embedding, item.seed) | self._attackers(embedding)

    def _paper(self, embedding: NDArray[np.float64], seed: int) -> Row:
        with one_thread():
            found = measures.predict_groups(
                embedding, sensitive_features=self.sensitive, random_state=seed, **self.network
            )
            return {
                "orthogonality": measures.orthogonality(
                    embedding, sensitive_features=self.sensitive
                ),
                "khsic": measures.khsic(embedding, sensitive_features=self.sensitive),
                "normalized_khsic": measures.normalized_khsic(
                    embedding, sensitive_features=self.sensitive
                ),
                "unfairness": found.value,
                "floor": found.floor,
                "balanced": found.balanced_accuracy - 1 / found.groups,
            }

    def _attackers(self, embedding: NDArray[np.float64]) -> Row:
        found = audit(embedding, sensitive_features=self.sensitive, **self.audits)
        low, high = found.leakage_interval
        return {
            "leakage": found.leakage,
            "low": low,
            "high": high,
            "strongest": f"{found.strongest.model} {found.strongest.input}",
            "below_chance": found.below_chance,
        }
