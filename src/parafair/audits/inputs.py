"""The inputs of an attacker: columns of an embedding in forms that no single person can distort.

Means and standard deviations are not used: one person far away would make all others look alike.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin

Input: TypeAlias = Literal["standardized", "whitened", "ranks"]
INPUTS: tuple[Input, ...] = ("standardized", "whitened", "ranks")

# The standard normal distribution has this distance between its 10 % and its 90 % quantile.
NORMAL_RANGE = 2 * ndtri(0.9)

# Values up to this many robust standard deviations are kept; beyond, they grow like the logarithm.
LINEAR_UP_TO = 5.0

# A person this many robust standard deviations from the median in a column is extreme.
EXTREME = 50.0

# Sums and products may have enlarged the rounding errors of the entries by this factor.
MARGIN = 10.0

# Whitening learns from this share of the people, those in the middle.
CENTRAL_SHARE = 0.75
CENTRAL_STEPS = 8

# Squares of such numbers, and sums of the squares, do not overflow.
LARGEST = 1e120


def robust_units(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the median and the robust standard deviation of each column; 0 if it is constant.

    The deviation is the distance between the 10 % and the 90 % quantile, divided by that of a
    normal distribution. If they are equal, it is the median distance of the people who differ from
    the median.

    Args:
        values: Finite numbers, shape (n, columns) or (n,).
    """
    halved = np.asarray(values, dtype=np.float64) / 2  # differences must not overflow
    low, center, high = np.quantile(halved, [0.1, 0.5, 0.9], axis=0, method="inverted_cdf")
    scale = np.array((high - low) / NORMAL_RANGE)
    for column in np.flatnonzero(scale == 0):
        own = halved.reshape(len(halved), -1)[:, column]
        distances = np.abs(own - np.ravel(center)[column])
        if distances.any():
            scale.reshape(-1)[column] = np.median(distances[distances > 0])
    return 2 * np.asarray(center), 2 * scale


def standardize(
    values: NDArray[np.float64], center: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distances from the center in units of the scale; zero if the scale is."""
    halved = values / 2 - center / 2
    with np.errstate(over="ignore"):
        found = halved / np.where(scale > 0, scale / 2, 1.0)
    return np.clip(np.where(scale > 0, found, 0.0), -LARGEST, LARGEST)


def compress(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values that keep their order, but grow like the logarithm far from zero."""
    distance = np.abs(values)
    far = LINEAR_UP_TO + np.log(np.maximum(distance, LINEAR_UP_TO) / LINEAR_UP_TO)
    return np.where(distance <= LINEAR_UP_TO, values, np.copysign(far, values))


def extreme_people(rows: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the people who are far from all others in a column, farthest first."""
    distances = np.abs(standardize(rows, *robust_units(rows))).max(1, initial=0.0)
    order = np.argsort(-distances, kind="stable")
    return np.asarray(order[distances[order] > EXTREME])


class InputColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns rows of an embedding into the columns that an attacker sees.

    - "standardized": distances from the median in robust standard deviations.
    - "whitened": the same for uncorrelated directions, learned from the central people. Directions
      that vary only by rounding errors are dropped: they would become noise of variance one.
    - "ranks": normal scores of the ranks among the training people; these are the same for any
      increasing function of a column.

    Values far from the center are compressed, never cut: their order is kept. A constant
    embedding gives one column of zeros or more.

    Args:
        form: "standardized", "whitened" or "ranks".
        precision: Relative rounding error of the entries; that of double precision by default.
    """

    def __init__(self, form: Input = "standardized", *, precision: float = 2.0**-52) -> None:
        self.form = form
        self.precision = precision

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn centers, scales, directions or ranks from rows of shape (n, rank)."""
        rows = np.asarray(X, dtype=np.float64)
        if self.form == "ranks":
            self.sorted_ = np.sort(rows, axis=0)
            return self
        self.center_, self.scale_ = robust_units(rows)
        if self.form == "whitened":
            self._whiten(standardize(rows, self.center_, self.scale_))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the rows in the new columns, shape (n, kept)."""
        rows = np.asarray(X, dtype=np.float64)
        if self.form == "ranks":
            return self._ranks(rows)
        columns = standardize(rows, self.center_, self.scale_)
        if self.form == "whitened":
            turned = (columns - self.middle_) @ self.directions_
            columns = standardize(turned, np.zeros(1), self.deviations_)
        return compress(columns)

    def _ranks(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        places = np.empty(rows.shape)
        for i, known in enumerate(self.sorted_.T):
            below = np.searchsorted(known, rows[:, i], side="left")
            places[:, i] = (below + np.searchsorted(known, rows[:, i], side="right") + 1) / 2
        return np.asarray(ndtri(places / (len(self.sorted_) + 1)))

    def _whiten(self, columns: NDArray[np.float64]) -> None:
        """Learn uncorrelated directions of standardized columns."""
        # Upper bound on the standard deviation of the rounding errors in any direction.
        sizes = np.abs(self.center_) + self.scale_
        relative = np.divide(sizes, self.scale_, out=np.zeros_like(sizes), where=self.scale_ > 0)
        noise = MARGIN * self.precision * float(np.linalg.norm(relative))
        central = central_people(columns, noise)
        self.middle_ = columns[central].mean(0)
        centered = columns - self.middle_
        found = _axes(centered[central], noise)
        # Directions in which only the others vary.
        rest = centered - (centered @ found) @ found.T
        small = np.abs(rest).max(1, initial=0.0) > noise + 1e-9 * np.abs(centered).max(1)
        if small.any():
            found = np.hstack([found, _axes(rest[small], noise)])
        self.directions_ = found if found.size else np.zeros((columns.shape[1], 1))
        turned = centered @ self.directions_
        self.deviations_ = robust_units(turned)[1]


def central_people(columns: NDArray[np.float64], noise: float) -> NDArray[np.intp]:
    """Return the people whose mean and covariance are those of the majority.

    The concentration steps of Rousseeuw and Van Driessen, "A fast algorithm for the minimum
    covariance determinant estimator", 1999: keep those nearest to the mean of those kept before,
    in units of their covariance.

    Args:
        columns: Robustly standardized columns, shape (n, columns).
        noise: Standard deviation of rounding errors.
    """
    count = max(2, int(np.ceil(CENTRAL_SHARE * len(columns))))
    distances = np.abs(columns).max(1, initial=0.0)
    kept = np.sort(np.argsort(distances, kind="stable")[:count])
    for _ in range(CENTRAL_STEPS):
        centered = columns - columns[kept].mean(0)
        _, singular, axes = np.linalg.svd(centered[kept], full_matrices=False)
        deviations = singular / len(kept) ** 0.5
        floor = max(noise, 1e-9 * deviations.max(initial=0.0), np.finfo(float).tiny)
        inside = centered @ axes.T
        outside = np.linalg.norm(centered - inside @ axes, axis=1)
        scaled = np.hstack([inside / np.maximum(deviations, floor), outside[:, None] / floor])
        # The largest is taken out first: squares must not overflow.
        size = np.abs(scaled).max(1, keepdims=True)
        distances = size[:, 0] * np.linalg.norm(scaled / np.where(size > 0, size, 1), axis=1)
        nearest = np.sort(np.argsort(distances, kind="stable")[:count])
        if np.array_equal(nearest, kept):
            break
        kept = nearest
    return kept


def _axes(centered: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return the principal axes that vary more than the noise, shape (columns, axes)."""
    _, singular, axes = np.linalg.svd(centered, full_matrices=False)
    return np.asarray(axes[singular / len(centered) ** 0.5 > noise].T)
