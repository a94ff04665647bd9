"""The row of a fit: the paper's measures of its embedding, and the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parafair.audits import audit, measures
from parafair.paper.config import Item
from parafair.paper.table import COLUMNS, KEY, Row
from parafair.solvers.result import Fit, Status
from parafair.threads import one_thread


@dataclass(frozen=True, eq=False)
class Measuring:
    """How fits to one data set are measured.

    Attributes:
        sensitive: 0 or 1 for each person.
        audits: Settings of the audit.
        network: Settings of the paper's classifier, without its batch size, which is a reading.
    """

    sensitive: NDArray[np.int64]
    audits: Mapping[str, Any]
    network: Mapping[str, Any]

    def rows(self, items: Sequence[Item], fit: Fit) -> list[Row]:
        """Return the rows of items that share a fit; if it diverged, they have only its status."""
        if fit.status is Status.DIVERGED:
            return [self._blank(item, fit) for item in items]
        counts = fit.counts
        embedding = fit.cp.factors[0].numpy()
        shared: Row = {
            "residual": fit.residual,
            "capped": counts["capped"] / counts["blocks"] if "capped" in counts else None,
            **self._attackers(embedding),
        }
        return [self._blank(item, fit) | shared | self._paper(embedding, item) for item in items]

    def _blank(self, item: Item, fit: Fit) -> Row:
        row: Row = {**dict.fromkeys(COLUMNS), **{name: getattr(item, name) for name in KEY}}
        return row | {"strongest": "", "status": fit.status.name.lower()}

    def _paper(self, embedding: NDArray[np.float64], item: Item) -> Row:
        with one_thread():
            found = measures.predict_groups(
                embedding,
                sensitive_features=self.sensitive,
                random_state=item.seed,
                batch_size=item.readings.batch_size,
                **self.network,
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
