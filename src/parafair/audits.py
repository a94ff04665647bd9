"""The audit: how much of the sensitive features an embedding reveals, whoever made it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import check_random_state

from parafair import metrics
from parafair.independence import permutation_test
from parafair.sensitive import Column, SensitiveFeatures

ATTACKER, ACCURACY, R_SQUARED = "attacker: ", "balanced accuracy", "R squared"

# Cross-validated scores this far below chance are not the noise of a small sample.
BELOW_CHANCE = 0.1

# Members of every group in a sample of a large population, if there are as many.
LEAST_MEMBERS = 10


@dataclass(frozen=True)
class Measure:
    """One line of an audit.

    Attributes:
        feature: The sensitive feature.
        measure: What was measured.
        value: The result.
        chance: What it would be if the embedding said nothing, where that is known.
        about: How to read it.
    """

    feature: str
    measure: str
    value: float
    chance: float | None
    about: str


@dataclass(frozen=True)
class Audit:
    """What an embedding reveals, as tidy rows; prints as a table.

    Attributes:
        rows: All measures of all features.
        people: How many people were looked at.
        of: How many there are.
    """

    rows: tuple[Measure, ...]
    people: int
    of: int

    @property
    def advantages(self) -> tuple[float, ...]:
        """How far each attacker is above chance."""
        return tuple(
            row.value - row.chance
            for row in self.rows
            if row.chance is not None and row.measure.startswith(ATTACKER)
        )

    @property
    def leakage(self) -> float:
        """The strongest attacker's advantage over chance; picking the strongest favors it.

        Its unit is that attacker's: balanced accuracy for a category, R squared for a number.
        """
        return max(self.advantages)

    @property
    def below_chance(self) -> float:
        """How far the most misled classifier is below chance."""
        # Not for numbers: any ignorant regression has a negative R squared.
        return max(
            (row.chance - row.value for row in self.rows if row.about == ACCURACY and row.chance),
            default=0.0,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides the rows, as sentences."""
        notes = [f"leakage {self.leakage:.3f}: the strongest attacker's advantage over chance"]
        if self.below_chance > BELOW_CHANCE:
            notes.append(
                f"an attacker is {self.below_chance:.3f} below chance: a warning, not a success. "
                "People may be matched in pairs across groups, which predictions invert"
            )
        if self.people < self.of:
            notes.append(f"on a random sample of {self.people} of {self.of} people")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be written as JSON."""
        return {
            "leakage": self.leakage,
            "notes": list(self.notes),
            "people": self.people,
            "of": self.of,
            "rows": [
                {**asdict(row), "value": row.value if isfinite(row.value) else None}
                for row in self.rows
            ],
        }

    def to_json(self) -> str:
        """Return the audit as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        cells = [("feature", "measure", "value", "chance", "")]
        for row in self.rows:
            chance = "" if row.chance is None else f"{row.chance:.3f}"
            cells.append((row.feature, row.measure, f"{row.value:.4g}", chance, row.about))
        widths = [max(len(line[i]) for line in cells) for i in range(4)]
        lines = [
            "  ".join(
                [*(c.ljust(w) for c, w in zip(line[:4], widths, strict=True)), line[4]]
            ).rstrip()
            for line in cells
        ]
        return "\n".join([*lines, *self.notes])


def audit(
    embedding: Any,
    sensitive_features: Any,
    *,
    folds: int = 5,
    permutations: int = 200,
    max_people: int = 5000,
    random_state: int | np.random.RandomState | None = 0,
) -> Audit:
    """Measure what an embedding reveals about each sensitive feature.

    Attackers are scikit-learn models on standardized columns, cross-validated: balanced
    accuracy for a category, R squared for a number. Beside them stand the paper's network and
    measures, which see the columns as they are, and a permutation test.

    Args:
        embedding: One row per person, shape (n, rank).
        sensitive_features: One row per person: array, Series, DataFrame or `SensitiveFeatures`.
        folds: Parts of the cross-validation; fewer if a group has fewer members.
        permutations: Permutations of the independence test.
        max_people: Larger data is sampled down to this many people.
        random_state: Seed of the sample, the folds, the attackers and the permutations.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds!r}")
    rows, sensitive = metrics.pair(embedding, sensitive_features)
    random = check_random_state(random_state)
    chosen = _sample(sensitive, max_people, random)
    table = rows.numpy()[chosen]
    measures: list[Measure] = []
    for column in sensitive.columns:
        seed = int(random.randint(2**31))
        sampled = SensitiveFeatures.of(
            _labels(column)[chosen], kinds=column.kind, names=[column.name]
        )
        measures += _attack(table, sampled.columns[0], folds, seed)
        measures += _paper_measures(table, sampled, permutations, seed)
    return Audit(tuple(measures), people=len(chosen), of=len(rows))


def _sample(
    sensitive: SensitiveFeatures, size: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Choose people at random, but some of every group, so that each can be attacked."""
    order = random.permutation(len(sensitive))
    if len(order) <= size:
        return np.arange(len(order))
    first = [
        order[column.values[order] == code][:LEAST_MEMBERS]
        for column in sensitive.columns
        for code in range(len(column.categories))
    ]
    # Unique in the order of first appearance: the chosen of each group, then the others.
    everybody = np.concatenate([*first, order])
    places = np.sort(np.unique(everybody, return_index=True)[1])
    return np.sort(everybody[places[:size]])


def _labels(column: Column) -> NDArray[Any]:
    return np.array(column.categories)[column.values] if column.categories else column.values


def _attack(table: NDArray[Any], column: Column, folds: int, seed: int) -> list[Measure]:
    """Let each attacker guess one feature from the embedding."""
    if column.kind == "categorical":
        smallest = int(np.bincount(column.values).min())
        if smallest < 2:
            group = column.categories[int(np.bincount(column.values).argmin())]
            raise ValueError(
                f"group {group!r} of sensitive feature {column.name!r} has only one member, so no "
                "attacker can be tested on it; merge it with another group"
            )
        split = StratifiedKFold(min(folds, smallest), shuffle=True, random_state=seed)
        scoring, chance = "balanced_accuracy", 1 / len(column.categories)
        attackers: dict[str, BaseEstimator] = {
            "logistic": LogisticRegression(class_weight="balanced", max_iter=1000),
            "RBF SVM": SVC(class_weight="balanced"),
            "forest": RandomForestClassifier(200, class_weight="balanced", random_state=seed),
        }
    else:
        split = KFold(min(folds, len(table)), shuffle=True, random_state=seed)
        scoring, chance = "r2", 0.0
        attackers = {
            "ridge": Ridge(),
            "RBF SVM": SVR(),
            "forest": RandomForestRegressor(200, random_state=seed),
        }
    about = ACCURACY if column.categories else R_SQUARED
    measures = []
    for name, attacker in attackers.items():
        model = make_pipeline(StandardScaler(), attacker)
        scores = cross_val_score(model, table, column.values, cv=split, scoring=scoring)
        measures.append(Measure(column.name, ATTACKER + name, float(scores.mean()), chance, about))
    return measures


def _paper_measures(
    table: NDArray[Any], sensitive: SensitiveFeatures, permutations: int, seed: int
) -> list[Measure]:
    """Return the measures of the paper for one feature, and a permutation test."""
    (column,) = sensitive.columns
    found: list[tuple[str, float, float | None, str]] = []
    if column.kind == "categorical":
        network = metrics.unfairness(table, sensitive, random_state=seed)
        bound = metrics.parity_bound(table, sensitive)
        found += [
            ("unfairness (paper)", network.value, network.floor, "accuracy - even guess"),
            ("network, balanced", network.balanced_accuracy, 1 / network.groups, "same, balanced"),
            ("parity bound (paper)", bound.paper, None, "not a bound; see docs"),
            ("largest group gap", bound.group_gap, None, "of unit-ball functions"),
        ]
    scaled = torch.from_numpy(StandardScaler().fit_transform(table))
    p_value = 1.0  # of an embedding that is the same for everybody
    if (scaled != scaled[0]).any():
        encoded = sensitive.encode(like=scaled)
        p_value = permutation_test(
            scaled, encoded, permutations=permutations, random_state=seed
        ).p_value
    found += [
        ("KHSIC", metrics.khsic(table, sensitive), None, "depends on scale"),
        ("normalized KHSIC", metrics.normalized_khsic(table, sensitive), None, "0 to 1; same"),
        ("orthogonality", metrics.orthogonality(table, sensitive), None, "||A'S||"),
        ("independence p-value", p_value, None, "permutation test"),
    ]
    return [Measure(column.name, *line) for line in found]
