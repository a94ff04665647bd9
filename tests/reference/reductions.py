"""Fair dimension reductions by their published formulas, with the large matrices and all."""

import numpy as np
from scipy.linalg import eigh, null_space


def fair_pca(x, z, rank):
    """Weights with equal means: Kleindessner et al., with the null space written out."""
    basis = null_space((z - z.mean(0)).T @ x)
    _, vectors = np.linalg.eigh(basis.T @ x.T @ x @ basis)
    return basis @ vectors[:, ::-1][:, :rank]


def fair_pca_covariance(x, groups, rank, kept):
    """The same for two groups, among the directions in which covariances differ least."""
    z = groups[:, None] == np.unique(groups)
    basis = null_space((z - z.mean(0)).T @ x)
    first, second = (np.cov(x[groups == g], rowvar=False, bias=True) for g in np.unique(groups))
    values, vectors = np.linalg.eigh(basis.T @ (first - second) @ basis)
    basis = basis @ vectors[:, np.argsort(np.abs(values))[:kept]]
    _, vectors = np.linalg.eigh(basis.T @ x.T @ x @ basis)
    return basis @ vectors[:, ::-1][:, :rank]


def erase(x, z):
    """The least change in the mean square such that x has no covariance with z, by Lagrange.

    Minimize tr((P - I) C (P - I).T) such that P D = 0, with C = cov(x) and D = cov(x, z) of full
    column rank: P = I - D (D.T C^-1 D)^-1 D.T C^-1.
    """
    mean = x.mean(0)
    centered, known = x - mean, z - z.mean(0)
    covariance, cross = centered.T @ centered, centered.T @ known
    solved = np.linalg.solve(covariance, cross)
    change = cross @ np.linalg.solve(cross.T @ solved, solved.T)
    return mean + centered @ (np.eye(x.shape[1]) - change).T


def perez_suay(x, q, rank, ridge=1e-7):
    """Eigenvalues and eigenvectors of the generalized problem of Perez-Suay et al., linear."""
    n = len(x)
    h = np.eye(n) - 1 / n
    above = x.T @ x @ x.T @ x
    below = x.T @ h @ q @ q.T @ h @ x + ridge * np.eye(x.shape[1])
    values, vectors = eigh(above, below)
    return values[::-1][:rank], vectors[:, ::-1][:, :rank]


def kernel_perez_suay(x, q, rank, gamma, ridge=1e-7):
    """The embedding of the kernel form, with the n x n matrices."""
    n = len(x)
    h = np.eye(n) - 1 / n
    k = np.exp(-gamma * ((x[:, None] - x[None]) ** 2).sum(-1))
    above = k @ h @ k @ h @ k
    below = k @ h @ q @ q.T @ h @ k + ridge * np.eye(n)
    _, vectors = eigh((above + above.T) / 2, (below + below.T) / 2)
    return k @ vectors[:, ::-1][:, :rank]
