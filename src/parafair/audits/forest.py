"""Random forests for few people: scikit-learn's trees without the overhead of its forests.

With 200 people, most of the time of `RandomForestClassifier` goes into checks and copies of
settings for each tree. Here these are left out. A category is trained as indicator columns of a
regression tree: the squared error is the Gini impurity up to a factor, so the best splits are the
same.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

from parafair.data.randomness import as_random


class _Forest(BaseEstimator):  # type: ignore[misc]
    """Trees on bootstraps of the rows; their predictions are averaged.

    Args:
        trees: Number of trees.
        min_samples_leaf: Smallest number of different rows in a leaf.
        random_state: Seed of the bootstraps and of the columns that are tried.
    """

    def __init__(
        self, trees: int = 100, *, min_samples_leaf: int = 2, random_state: int | None = None
    ) -> None:
        self.trees = trees
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def _grow(
        self,
        rows: Any,
        targets: NDArray[np.float64],
        chances: NDArray[np.float64],
        max_features: str | float,
    ) -> None:
        """Grow the trees.

        Args:
            rows: The inputs, shape (n, columns).
            targets: What is predicted, shape (n,) or (n, outputs).
            chances: The probability of each row in a bootstrap, shape (n,).
            max_features: The columns tried at each split, as in scikit-learn.
        """
        random = as_random(self.random_state)
        rows = np.asarray(rows, dtype=np.float32)
        self.trees_ = []
        with config_context(skip_parameter_validation=True):  # a third of the time, for each tree
            for _ in range(self.trees):
                drawn = random.multinomial(len(rows), chances).astype(np.float64)
                tree = DecisionTreeRegressor(
                    max_features=max_features,
                    min_samples_leaf=self.min_samples_leaf,
                    random_state=random,
                )
                self.trees_.append(tree.fit(rows, targets, drawn, check_input=False))

    def _mean(self, rows: Any) -> NDArray[np.float64]:
        """Return the mean prediction of all trees, shape (n,), or (n, outputs) of several."""
        rows = np.asarray(rows, dtype=np.float32)
        found = [tree.predict(rows, check_input=False) for tree in self.trees_]
        return np.asarray(np.mean(found, axis=0))


class ForestClassifier(ClassifierMixin, _Forest):  # type: ignore[misc]
    """A random forest for categories, all equally likely in a bootstrap; see its base class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows of shape (n, columns) and one category per row."""
        self.classes_, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        members = np.eye(len(counts))[codes]
        # Of two groups, the share of one gives that of the other.
        targets = members[:, 1:] if len(counts) == 2 else members
        self._grow(X, targets, (1 / counts / len(counts))[codes], "sqrt")
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n, classes)."""
        shares = self._mean(X).reshape(len(X), -1)
        return np.hstack([1 - shares, shares]) if len(self.classes_) == 2 else shares

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, shape (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


class ForestRegressor(RegressorMixin, _Forest):  # type: ignore[misc]
    """A random forest for numbers; see its base class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows of shape (n, columns) and one number per row."""
        numbers = np.asarray(y, dtype=np.float64)
        self._grow(X, numbers, np.full(len(numbers), 1 / len(numbers)), 1.0)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return a number for each row, shape (n,)."""
        return self._mean(X)
