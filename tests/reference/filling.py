"""Missing entries of a person, one person at a time."""

import numpy as np


def filled_entries(entries, other, rows, error):
    """Return all entries of one person: the given ones, and predictions where they are NaN.

    Args:
        entries: Shape (columns,).
        other: The factor of the columns, shape (columns, rank).
        rows: Rows of the model's people, shape (n, rank).
        error: The mean squared error of the model.
    """
    there = ~np.isnan(entries)
    mean, inverse = rows.mean(0), np.linalg.inv(np.cov(rows.T, bias=True))
    left = entries[there] - other[there] @ mean
    gram = other[there].T @ other[there] + error * inverse
    row = mean + np.linalg.solve(gram, other[there].T @ left)
    return np.where(there, entries, other @ row)
