"""A vote of the nearby people: the attacker that finds people matched across groups.

If people are matched in pairs across groups, the nearest neighbor is of the other group. A vote of
the neighbors is then wrong about everybody, and an attacker who turns the answer around is right.
So the width of the neighborhood is chosen to be right, or wrong, as often as possible when one
training person at a time is left out. Whether to turn the answers around is decided with those of
all attackers.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

# Widths between the distance of nearest neighbors and that of two random people.
WIDTHS = 6


class _KernelVote(BaseEstimator):  # type: ignore[misc]
    """Shared by both votes: distances between people, and the widths to choose from.

    Args:
        widths: Number of widths to choose from.
    """

    def __init__(self, widths: int = WIDTHS) -> None:
        self.widths = widths

    def _others(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the squared distances between training people; their own is infinite."""
        squares = np.asarray(cdist(rows, rows, "sqeuclidean"))
        np.fill_diagonal(squares, np.inf)
        return squares

    def _gammas(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return kernel parameters, from the narrowest kernel to the widest."""
        positive = squares[np.isfinite(squares) & (squares > 0)]
        if not positive.size:  # all people are the same
            return np.ones(1)
        nearest = np.where(squares > 0, squares, np.inf).min(1)
        first = np.median(nearest[np.isfinite(nearest)])
        return np.asarray(1 / np.geomspace(first, max(first, np.median(positive)), self.widths) / 2)


class KernelVoteClassifier(ClassifierMixin, _KernelVote):  # type: ignore[misc]
    """Predicts the group whose members are nearest, by the mean of a kernel."""

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the people, and choose the width whose votes are furthest from chance."""
        self.rows_ = np.asarray(X, dtype=np.float64)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        squares = self._others(self.rows_)
        best = -np.inf
        for gamma in self._gammas(squares):
            right = self._votes(squares, gamma, leave_one_out=True).argmax(1) == self.codes_
            shares = [right[self.codes_ == c].mean() for c in range(len(self.classes_))]
            distance = abs(np.mean(shares) - 1 / len(shares))
            if distance > best:
                best, self.gamma_ = distance, gamma
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return shares of the votes, shape (n, classes)."""
        squares = cdist(np.asarray(X, dtype=np.float64), self.rows_, "sqeuclidean")
        votes = self._votes(squares, self.gamma_, leave_one_out=False)
        return np.asarray(softmax(votes, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the most votes, shape (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def _votes(
        self, squares: NDArray[np.float64], gamma: float, *, leave_one_out: bool
    ) -> NDArray[np.float64]:
        """Return the logarithm of the mean kernel with each class, up to a constant per person.

        The shape is (n, classes).
        """
        members = np.eye(len(self.classes_))[self.codes_]
        counts = members.sum(0) - (members if leave_one_out else 0)  # nobody votes about oneself
        # Distances relative to the nearest person: the kernel must not vanish everywhere.
        total = np.exp(-gamma * (squares - squares.min(1, keepdims=True))) @ members
        with np.errstate(divide="ignore", invalid="ignore"):
            # The only member of a class has no vote for it.
            votes = np.nan_to_num(np.log(total / counts), nan=-1e300, neginf=-1e300)
        return np.asarray(votes)


class KernelVoteRegressor(RegressorMixin, _KernelVote):  # type: ignore[misc]
    """Predicts from the mean of the nearby people."""

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the people, and choose the width whose votes correlate most, and the slope."""
        self.rows_ = np.asarray(X, dtype=np.float64)
        self.numbers_ = np.asarray(y, dtype=np.float64)
        n, squares = len(self.rows_), self._others(self.rows_)
        deviations = self.numbers_ - self.numbers_.mean()
        # The mean of the others: a vote of everybody else must not depend on one's own number.
        without = (self.numbers_.sum() - self.numbers_) / max(1, n - 1)
        best, self.slope_, self.gamma_ = 0.0, 0.0, 1.0
        for gamma in self._gammas(squares) if n > 1 else ():
            votes = softmax(-gamma * squares, axis=1) @ self.numbers_ - without
            spread, shared = float(votes @ votes), float(votes @ deviations)
            if spread > 0 and shared**2 / spread > best:
                best, self.gamma_ = shared**2 / spread, gamma
                self.slope_ = abs(shared) / spread
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return a number for each row, shape (n,)."""
        squares = cdist(np.asarray(X, dtype=np.float64), self.rows_, "sqeuclidean")
        votes = softmax(-self.gamma_ * squares, axis=1) @ self.numbers_
        mean = self.numbers_.mean()
        return np.asarray(mean + self.slope_ * (votes - mean))
