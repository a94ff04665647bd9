"""The input of an attacker: standardized columns of the embedding, or whitened ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

STANDARDIZED, WHITENED = "standardized", "whitened"
INPUTS = (STANDARDIZED, WHITENED)

# Values beyond this many standard deviations are clipped: a direction that hardly varies in the
# training set may be huge in the test set.
FARTHEST = 10.0

# Sums and products may have enlarged the rounding errors of the entries by this factor.
MARGIN = 10.0


class Standardizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scales columns to mean zero and variance one; if whitened, they are uncorrelated too.

    Columns and directions that vary only by rounding errors are dropped: whitening would turn
    these errors into noise of variance one. A constant embedding gives one column of zeros.

    Args:
        whiten: Rotate to uncorrelated directions of variance one.
        precision: Relative rounding error of the entries; that of double precision by default.
    """

    def __init__(self, *, whiten: bool = False, precision: float = 2.0**-52) -> None:
        self.whiten = whiten
        self.precision = precision

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn means, scales and directions from rows of shape (n, rank)."""
        rows = np.asarray(X, dtype=np.float64)
        self.size_ = np.maximum(np.abs(rows).max(0), np.finfo(float).tiny)
        rows = rows / self.size_  # squares must not overflow
        self.center_ = rows.mean(0)
        spread = rows.std(0)
        rounding = MARGIN * self.precision
        kept = np.flatnonzero(spread > rounding)
        scaled = (rows[:, kept] - self.center_[kept]) / spread[kept]
        directions = np.eye(len(kept))
        if self.whiten and len(kept):
            _, singular, rotation = np.linalg.svd(scaled, full_matrices=False)
            deviation = singular / len(rows) ** 0.5
            # Upper bound on the standard deviation of the rounding errors in any direction.
            noise = rounding * np.linalg.norm(1 / spread[kept])
            real = deviation > noise
            directions = rotation[real].T / deviation[real]
        self.directions_ = np.zeros((rows.shape[1], max(1, directions.shape[1])))
        if directions.size:
            self.directions_[kept] = directions / spread[kept, None]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the rows in the new columns, shape (n, kept)."""
        centered = np.asarray(X, dtype=np.float64) / self.size_ - self.center_
        return np.asarray(np.clip(centered @ self.directions_, -FARTHEST, FARTHEST))
