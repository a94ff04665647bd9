"""The audit of what a recommender shows: predicted scores, and lists of the highest ones.

An embedding may be hidden from the outside while its predictions are not. Attackers then see only
the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD

from parafair.arguments import whole_number
from parafair.audits.features import LEAST_PEOPLE, check_count
from parafair.audits.inputs import compress, robust_units, standardize
from parafair.audits.people import People
from parafair.audits.result import Audit, Verdict
from parafair.audits.run import audit
from parafair.audits.scores import ScoreComparison, compare_scores
from parafair.audits.view import audit_parts
from parafair.data.arrays import as_tensor
from parafair.data.randomness import RandomState, as_random
from parafair.display import nested, paragraph, view

# More columns are reduced to this many principal components.
MOST_COLUMNS = 50


@dataclass(frozen=True)
class OutputAudit:
    """How much the predictions of a model reveal.

    Attributes:
        scores: The audit of the predicted scores.
        lists: The audit of the lists of the highest scores.
        k: The length of the lists.
        differences: How much the scores differ between the groups of each feature.
    """

    scores: Audit
    lists: Audit
    k: int
    differences: ScoreComparison = field(default_factory=ScoreComparison)

    @property
    def leakage(self) -> float:
        """The larger leakage of the two; see `Audit.leakage`."""
        return max(self.scores.leakage, self.lists.leakage)

    def verdict(self, max_leakage: float = 0.05) -> Verdict:
        """Return "passes" if both audits do, "leaks" if one does; see `Audit.verdict`."""
        both = {self.scores.verdict(max_leakage), self.lists.verdict(max_leakage)}
        worst = (Verdict.LEAKS, Verdict.INCONCLUSIVE, Verdict.PASSES)
        return next(verdict for verdict in worst if verdict in both)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        return {
            "k": self.k,
            "scores": self.scores.to_dict(),
            "lists": self.lists.to_dict(),
            "differences": [one.to_dict() for one in self.differences],
        }

    def __str__(self) -> str:
        differences = "".join(f"\n{one}" for one in self.differences)
        return (
            f"predicted scores\n\n{self.scores}\n\nlists of the {self.k} highest scores\n\n"
            f"{self.lists}\n\ndifferences of scores between groups\n{differences}"
        )

    def _repr_html_(self) -> str:
        parts = [
            nested("predicted scores", *audit_parts(self.scores)),
            nested(f"lists of the {self.k} highest scores", *audit_parts(self.lists)),
        ]
        if self.differences:
            parts.append(nested("differences of scores between groups", self.differences.table()))
        about = f"Leakage {self.leakage:.3f}, the larger of scores and lists."
        return view("OutputAudit", paragraph(about), *parts)

    def __repr__(self) -> str:
        return f"OutputAudit(scores={self.scores!r}, lists={self.lists!r})"


def audit_outputs(
    scores: Any,
    *,
    sensitive_features: Any,
    k: int = 10,
    max_people: int = 5000,
    random_state: RandomState = 0,
    **settings: Any,
) -> OutputAudit:
    """Measure how much predicted scores, and lists of the k highest, reveal about people.

    >>> import numpy as np
    >>> scores = np.random.default_rng(0).normal(size=(40, 6))
    >>> found = audit_outputs(
    ...     scores, sensitive_features=scores[:, 0] > 0, k=2, attackers=["linear"], permutations=5
    ... )
    >>> found.verdict().value
    'leaks'

    Args:
        scores: A predicted score of every item for every person, people along the first axis:
            shape (n, items) or more axes, such as `FairCP.inverse_transform` returns.
        sensitive_features: One row per person, as in `audit`.
        k: Length of the lists; smaller than the number of items.
        max_people: As in `audit`.
        random_state: As in `audit`.
        settings: Further settings of `audit`.
    """
    whole_number("k", k)
    whole_number("max_people", max_people, least=LEAST_PEOPLE)
    table = as_tensor(scores, name="scores", dtype=torch.float64)
    if table.ndim < 2:
        raise ValueError(
            f"scores must have people along the first axis and items along the others, got shape "
            f"{tuple(table.shape)}"
        )
    people = People.of(table.flatten(1), sensitive_features, name="scores")
    check_count(len(people), name="scores")
    items = people.rows.shape[1]
    if k >= items:
        raise ValueError(
            f"k must be smaller than the number of items, {items}, got {k}; a list of all items "
            "says nothing"
        )
    random = as_random(random_state)
    people = people.take(people.places(max_people, random))
    seed = int(random.randint(2**31))
    found = []
    for columns in (people.rows, highest(people.rows, k)):
        reduced, remarks = _reduce(columns, seed)
        one = audit(
            reduced,
            sensitive_features=people.sensitive,
            max_people=max_people,
            random_state=seed,
            **settings,
        )
        found.append(replace(one, population=len(table), remarks=(*one.remarks, *remarks)))
    differences = compare_scores(people.rows, sensitive_features=people.sensitive)
    return OutputAudit(found[0], found[1], k, differences)


def highest(scores: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return 1 for the k highest scores of each person and 0 for others; ties by position."""
    lists = np.zeros(scores.shape)
    np.put_along_axis(lists, np.argsort(-scores, axis=1, kind="stable")[:, :k], 1.0, axis=1)
    return lists


def _reduce(columns: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return at most `MOST_COLUMNS` columns, and a sentence if there were more."""
    columns = columns[:, np.ptp(columns, axis=0) > 0]
    if columns.shape[1] <= MOST_COLUMNS:
        return (columns if columns.shape[1] else np.zeros((len(columns), 1))), ()
    scaled = compress(standardize(columns, *robust_units(columns)))
    scaled = scaled - scaled.mean(0)
    reduction = TruncatedSVD(min(MOST_COLUMNS, len(columns) - 1), random_state=seed)
    found = reduction.fit_transform(scaled)
    kept = 100 * float((found**2).sum() / (scaled**2).sum())
    return found, (
        f"{columns.shape[1]} columns were reduced to {found.shape[1]} principal components, with "
        f"{kept:.0f} % of their variance",
    )
