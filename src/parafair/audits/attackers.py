"""The attackers: models that guess a sensitive feature from the embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from parafair.audits.networks import (
    PaperNetworkClassifier,
    PaperNetworkRegressor,
    TunedNetworkClassifier,
    TunedNetworkRegressor,
)
from parafair.data.column import Kind
from parafair.errors import unknown_choice

Maker = Callable[[int], Any]


class PriorCorrected(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose answers do not favor large groups.

    It answers with the class whose probability is largest relative to its share in training:
    the best answer if balanced accuracy is what counts.

    Args:
        estimator: A classifier with `predict_proba`.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Train the classifier and count the classes."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return what the classifier says, shape (n, classes)."""
        return np.asarray(self.estimator_.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that gains most over its share, shape (n,)."""
        return np.asarray(self.classes_[(self.predict_proba(X) / self.shares_).argmax(1)])


@dataclass(frozen=True)
class Attacker:
    """One way to guess a feature: a classifier for categories, a regression for numbers.

    Attributes:
        classifier: Makes an untrained classifier from a seed; None if there is none.
        regressor: Makes an untrained regression from a seed; None if there is none.
        most_people: Larger training sets are sampled down to this many people.
    """

    classifier: Maker | None
    regressor: Maker | None
    most_people: int | None = None

    @classmethod
    def of(cls, name: str, estimator: Any) -> Attacker:
        """Return an attacker that trains copies of a scikit-learn estimator."""
        if isinstance(estimator, Attacker):
            return estimator
        known = isinstance(estimator, BaseEstimator)
        if not (known and (is_classifier(estimator) or is_regressor(estimator))):
            raise TypeError(
                f"attacker {name!r} must be a scikit-learn classifier or regression, got "
                f"{type(estimator).__name__}; derive it from "
                "BaseEstimator and ClassifierMixin or RegressorMixin"
            )

        def make(seed: int) -> Any:
            copy = clone(estimator)
            unset = {k: v for k, v in copy.get_params().items() if k.endswith("random_state")}
            return copy.set_params(**{k: seed for k, v in unset.items() if v is None})

        return cls(make, None) if is_classifier(estimator) else cls(None, make)

    def guesses(self, kind: Kind) -> bool:
        """Tell whether it can guess features of this kind."""
        return (self.classifier if kind == "categorical" else self.regressor) is not None

    def make(self, kind: Kind, seed: int) -> Any:
        """Return an untrained model for one kind of feature."""
        maker = self.classifier if kind == "categorical" else self.regressor
        if maker is None:
            raise ValueError(f"this attacker has no model for {kind} features")
        return maker(seed)


def _standardize_target(regressor: Any) -> Any:
    return TransformedTargetRegressor(regressor, transformer=StandardScaler())


# Neighbors weighted by closeness; all of the training people if there are fewer.
NEIGHBORS = 15

ATTACKERS: dict[str, Attacker] = {
    "linear": Attacker(
        lambda seed: LogisticRegression(class_weight="balanced", max_iter=2000),
        lambda seed: RidgeCV(np.logspace(-2, 4, 7)),
    ),
    "svm": Attacker(
        lambda seed: SVC(class_weight="balanced", cache_size=500),
        lambda seed: _standardize_target(SVR(cache_size=500)),
        most_people=3000,
    ),
    "forest": Attacker(
        lambda seed: RandomForestClassifier(
            100, class_weight="balanced", min_samples_leaf=2, random_state=seed
        ),
        lambda seed: RandomForestRegressor(100, min_samples_leaf=2, random_state=seed),
    ),
    "boosting": Attacker(
        lambda seed: HistGradientBoostingClassifier(
            max_iter=60, min_samples_leaf=5, class_weight="balanced", random_state=seed
        ),
        lambda seed: HistGradientBoostingRegressor(
            max_iter=60, learning_rate=0.05, min_samples_leaf=10, random_state=seed
        ),
    ),
    "neighbors": Attacker(
        lambda seed: PriorCorrected(KNeighborsClassifier(NEIGHBORS, weights="distance")),
        lambda seed: KNeighborsRegressor(NEIGHBORS, weights="distance"),
    ),
    "network": Attacker(
        lambda seed: PriorCorrected(TunedNetworkClassifier(random_state=seed)),
        lambda seed: TunedNetworkRegressor(random_state=seed),
    ),
    "paper-network": Attacker(
        lambda seed: PriorCorrected(PaperNetworkClassifier(random_state=seed)),
        lambda seed: PaperNetworkRegressor(random_state=seed),
        most_people=1000,
    ),
}


def choose(attackers: Iterable[str] | Mapping[str, Any] | None) -> dict[str, Attacker]:
    """Return the attackers asked for, by name: all of ours, some, or the caller's own."""
    if attackers is None:
        return dict(ATTACKERS)
    if isinstance(attackers, Mapping):
        chosen = {str(name): Attacker.of(name, model) for name, model in attackers.items()}
    else:
        names = [attackers] if isinstance(attackers, str) else list(attackers)
        for name in names:
            if name not in ATTACKERS:
                raise unknown_choice("every name in attackers", name, ATTACKERS)
        chosen = {name: ATTACKERS[name] for name in names}
    if not chosen:
        raise ValueError(
            f"attackers is empty; name at least one of {', '.join(ATTACKERS)}, or pass None for all"
        )
    return chosen
