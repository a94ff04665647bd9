"""The registered attackers, and the panels they form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.svm import SVC

from parafair.arguments import items, one_of
from parafair.audits.attacker import STAGES, Attacker, Stage
from parafair.audits.estimators import (
    NeighborsClassifier,
    NeighborsRegressor,
    PriorCorrected,
    SeededSVR,
    standardize_target,
)
from parafair.audits.forest import ForestClassifier, ForestRegressor
from parafair.audits.inputs import Input
from parafair.audits.kernel_vote import KernelVoteClassifier, KernelVoteRegressor
from parafair.audits.linear import LinearClassifier
from parafair.audits.networks import (
    PaperNetworkClassifier,
    PaperNetworkRegressor,
    TunedNetworkClassifier,
    TunedNetworkRegressor,
)
from parafair.errors import unknown_choice

# Neighbors are weighted by the inverse of their distance.
NEIGHBORS = 15

# Trees compare values of one column, so ranks are as good as the values themselves.
OF_TREES: tuple[Input, ...] = ("whitened", "ranks")

# To add an attacker, add a line here; see docs/add-an-attacker.md.
ATTACKERS: dict[str, Attacker] = {
    "linear": Attacker(
        lambda seed: LinearClassifier(),
        lambda seed: RidgeCV(np.logspace(-8, 4, 13)),
        stage="quick",
    ),
    "svm": Attacker(
        lambda seed: SVC(class_weight="balanced", cache_size=500, random_state=seed),
        lambda seed: standardize_target(SeededSVR(cache_size=500)),
        stage="quick",
        max_people=3000,
    ),
    "kernel-vote": Attacker(
        lambda seed: KernelVoteClassifier(),
        lambda seed: KernelVoteRegressor(),
        stage="quick",
        max_people=1000,
    ),
    "forest": Attacker(
        lambda seed: ForestClassifier(random_state=seed),
        lambda seed: ForestRegressor(random_state=seed),
        stage="thorough",
        inputs=OF_TREES,
    ),
    "boosting": Attacker(
        lambda seed: HistGradientBoostingClassifier(
            max_iter=60, min_samples_leaf=5, class_weight="balanced", random_state=seed
        ),
        lambda seed: HistGradientBoostingRegressor(
            max_iter=60, learning_rate=0.05, min_samples_leaf=10, random_state=seed
        ),
        stage="thorough",
        inputs=OF_TREES,
    ),
    "neighbors": Attacker(
        lambda seed: PriorCorrected(NeighborsClassifier(NEIGHBORS, weights="distance")),
        lambda seed: NeighborsRegressor(NEIGHBORS, weights="distance"),
        stage="thorough",
    ),
    "network": Attacker(
        lambda seed: PriorCorrected(TunedNetworkClassifier(random_state=seed)),
        lambda seed: TunedNetworkRegressor(random_state=seed),
        stage="slow",
    ),
    "paper-network": Attacker(
        lambda seed: PriorCorrected(PaperNetworkClassifier(random_state=seed)),
        lambda seed: PaperNetworkRegressor(random_state=seed),
        stage="slow",
        max_people=1000,
        inputs=("standardized", "whitened"),
    ),
}


def panel(stage: Stage) -> tuple[str, ...]:
    """Return the names of the attackers that take part at a stage.

    >>> panel("quick")
    ('linear', 'svm', 'kernel-vote')

    Args:
        stage: "quick" for attackers that refuse most embeddings within a second, "thorough" for
            all that find the most in little time, "slow" for all registered attackers.
    """
    if stage not in STAGES:
        raise unknown_choice("stage", stage, STAGES)
    included = STAGES[: STAGES.index(stage) + 1]
    return tuple(name for name, attacker in ATTACKERS.items() if attacker.stage in included)


def resolve_attackers(attackers: Iterable[str] | Mapping[str, Any] | None) -> dict[str, Attacker]:
    """Return attackers by name: all registered ones for None, those named, or the caller's own."""
    if attackers is None:
        return dict(ATTACKERS)
    if isinstance(attackers, Mapping):
        chosen = {str(k): Attacker.from_estimator(k, model) for k, model in attackers.items()}
    else:
        listed = [attackers] if isinstance(attackers, str) else attackers
        names = items("attackers", listed, "names, or a dictionary from a name to an estimator")
        names = [one_of("every name in attackers", name, ATTACKERS) for name in names]
        chosen = {name: ATTACKERS[name] for name in names}
    if not chosen:
        raise ValueError(
            f"attackers is empty; name at least one of {', '.join(ATTACKERS)}, or pass None for all"
        )
    return chosen
