"""Small additions to scikit-learn's estimators that attackers need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.metaestimators import available_if

from parafair.audits.together import fit_all, trains_together


class PriorCorrected(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that does not favor large groups.

    It predicts the class whose probability is largest relative to its share in the training set,
    which maximizes balanced accuracy.

    Args:
        estimator: A classifier with `predict_proba`.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Train the classifier and count the classes."""
        self._prepare(y).fit(X, y)
        return self

    @available_if(lambda self: trains_together(self.estimator))  # type: ignore[untyped-decorator]
    def fit_together(self, models: Sequence[Self], sets: Sequence[tuple[Any, Any]]) -> None:
        """Train several classifiers; see `parafair.audits.together`."""
        inside = [model._prepare(y) for model, (_, y) in zip(models, sets, strict=True)]
        fit_all(inside, sets)

    def _prepare(self, y: Any) -> Any:
        """Count the classes and return the classifier, untrained."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        self.estimator_ = clone(self.estimator)
        return self.estimator_

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classifier, uncorrected, shape (n, classes)."""
        return np.asarray(self.estimator_.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class whose probability exceeds its share most, shape (n,)."""
        return np.asarray(self.classes_[(self.predict_proba(X) / self.shares_).argmax(1)])


class _FewerNeighbors:
    """Uses all training rows if there are fewer than `n_neighbors`, where scikit-learn raises."""

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Return the nearest training rows, as in scikit-learn."""
        estimator: Any = self
        count = min(n_neighbors or estimator.n_neighbors, estimator.n_samples_fit_)
        parent: Any = super()
        return parent.kneighbors(X, count, return_distance)


class NeighborsClassifier(_FewerNeighbors, KNeighborsClassifier):  # type: ignore[misc]
    """scikit-learn's `KNeighborsClassifier`, for any number of people."""


class NeighborsRegressor(_FewerNeighbors, KNeighborsRegressor):  # type: ignore[misc]
    """scikit-learn's `KNeighborsRegressor`, for any number of people."""


class SeededSVR(SVR):  # type: ignore[misc]
    """scikit-learn's `SVR`, which draws a number that it does not use.

    There it is drawn from NumPy's global random state, which callers may rely on.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train as in scikit-learn."""
        self.random_state = 0
        super().fit(X, y, sample_weight)
        return self


def standardize_target(regressor: Any) -> Any:
    """Return a regressor that is trained on numbers of mean 0 and variance 1."""
    return TransformedTargetRegressor(regressor, transformer=StandardScaler())
