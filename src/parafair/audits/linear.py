"""A linear attacker for any number of columns: logistic regression, or a discriminant analysis.

Where there are few people for the columns, logistic regression does not find a group that is
written in a direction of small variance: its penalty favors directions of large variance, and a
whitening that was learned from few people is poor. Discriminant analysis uses the covariance within
the groups, so the units of directions do not matter to it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

# With fewer people for each column, both are tried, in so many folds. The time of a discriminant
# grows with the cube of the number of columns.
FEW_PER_COLUMN, MOST_COLUMNS = 10, 200
FOLDS = 3

# Standard deviations within the groups below this share of the largest count as that much.
LEAST_DEVIATION = 1e-8


class DiscriminantClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the group whose mean is nearest in units of the covariance within the groups."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the means and the covariance, which all groups share."""
        rows = np.asarray(X, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        means = np.stack([rows[codes == code].mean(0) for code in range(len(self.classes_))])
        within = (rows - means[codes]) / max(1, len(rows) - len(means)) ** 0.5
        _, found, axes = np.linalg.svd(within, full_matrices=True)
        deviations = np.zeros(rows.shape[1])
        deviations[: len(found)] = found
        least = LEAST_DEVIATION * deviations.max(initial=0.0) or 1.0
        self.directions_ = axes.T / np.maximum(deviations, least)
        self.means_ = means @ self.directions_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of groups of equal size, shape (n, classes)."""
        turned = np.asarray(X, dtype=np.float64) @ self.directions_
        squares = np.square(turned[:, None] - self.means_).sum(2)
        return np.asarray(softmax(-squares / 2, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the group whose mean is nearest, shape (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression, unless there are few people for the columns and a discriminant is right.

    With few people for the columns, the one with the larger balanced accuracy in folds of the
    training people is taken; logistic regression if both have the same.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train the model that is chosen."""
        rows = np.asarray(X, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        chosen = _logistic()
        people, columns = rows.shape
        if people < FEW_PER_COLUMN * columns and columns <= MOST_COLUMNS:
            candidates = (_logistic(), DiscriminantClassifier())
            accuracies = [_accuracy(candidate, rows, codes) for candidate in candidates]
            chosen = candidates[int(np.argmax(accuracies))]
        self.model_ = chosen.fit(rows, codes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, shape (n, classes)."""
        return np.asarray(self.model_.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, shape (n,)."""
        return np.asarray(self.classes_[self.model_.predict(X)])


def _logistic() -> LogisticRegression:
    return LogisticRegression(class_weight="balanced", max_iter=2000)


def _accuracy(model: Any, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Return the balanced accuracy in folds, which have nearly equal shares of every class."""
    counts = np.bincount(codes)
    fold = np.empty(len(codes), dtype=np.intp)
    for code in range(len(counts)):
        fold[codes == code] = np.arange(counts[code]) % FOLDS
    right = np.zeros(len(codes), dtype=bool)
    for number in range(FOLDS):
        train, test = fold != number, fold == number
        if test.any() and len(np.unique(codes[train])) > 1:
            right[test] = model.fit(rows[train], codes[train]).predict(rows[test]) == codes[test]
    return float(np.mean(np.bincount(codes, right) / counts))
