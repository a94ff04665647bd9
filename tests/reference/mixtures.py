"""Gaussian mixtures the obvious way: one normal density per person, and integrals on a grid."""

import numpy as np
from scipy.stats import multivariate_normal


def densities(points, rows, codes, noise):
    """The density of a released row of each group, shape (points, groups)."""
    covariance = noise.T @ noise
    found = np.zeros((len(points), codes.max() + 1))
    for row, code in zip(rows, codes, strict=True):
        found[:, code] += multivariate_normal(row, covariance).pdf(points)
    return found / np.bincount(codes)


def grid(rows, noise, step):
    """Points that cover all mixtures, and the volume of a cell."""
    reach = 7 * np.sqrt(np.diag(noise.T @ noise))
    axes = [
        np.arange(low - far, high + far, step)
        for low, high, far in zip(rows.min(0), rows.max(0), reach, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, rows.shape[1])
    return points, step ** rows.shape[1]


def advantage(rows, codes, noise, step=0.02):
    """The best balanced accuracy above chance, by integration."""
    points, cell = grid(rows, noise, step)
    found = densities(points, rows, codes, noise)
    return found.max(1).sum() * cell / found.shape[1] - 1 / found.shape[1]


def explained(rows, numbers, noise, step=0.02):
    """The share of the variance that the posterior mean explains, by integration."""
    points, cell = grid(rows, noise, step)
    each = densities(points, rows, np.arange(len(rows)), noise) / len(rows)
    total = each.sum(1)
    kept = total > 1e-200
    means = each[kept] @ (numbers - numbers.mean()) / total[kept]
    return (means**2 * total[kept]).sum() * cell / numbers.var()
