"""The invariant criterion as its documentation says, with n x n matrices and nothing shared.

Everything can be differentiated by torch.
"""

import math

import torch

from parafair.dependence.weights import feature_factors

PERIOD, LIMIT = 6.0, 3**0.5


def centered(gram):
    """Return ``H K H``."""
    n = len(gram)
    center = torch.eye(n, dtype=gram.dtype) - 1 / n
    return center @ gram @ center


def weights_of(gram):
    """Return the weights of a feature: zero on the diagonal, mean 0, squares that add up to 1."""
    n = len(gram)
    off = ~torch.eye(n, dtype=torch.bool)
    weights = centered(gram)
    weights = torch.where(off, weights - weights[off].mean(), 0.0)
    return weights / weights.square().sum().sqrt()


def column_gram(column, gamma, most):
    """Return the kernel of a compressed column: a Gaussian one, made of waves."""
    place = column / (1 + column.square() / 3).sqrt()
    step = 2 * math.pi / PERIOD
    total, sum_of_weights = 0.0, 0.0
    for k in range(math.ceil(3 * (2 * most) ** 0.5 / step) + 1):
        weight = math.exp(-((k * step) ** 2) / (4 * gamma)) / (2 if k == 0 else 1)
        total = total + weight * torch.cos(k * step * (place[:, None] - place))
        sum_of_weights += weight
    return total / sum_of_weights


def root_of(matrix, power):
    """Return a power of a symmetric matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.mT


def robust_units(columns):
    """Return whitened rows and columns in units of a t distribution with 2 degrees of freedom."""
    n, rank = columns.shape
    centered, scatter = columns, columns.mT @ columns / n
    for _ in range(3):
        squares = (centered @ torch.linalg.inv(scatter) * centered).sum(1)
        weights = ((rank + 2) / (2 + squares))[:, None]
        centered = centered - (weights * centered).sum(0) / weights.sum()
        scatter = (weights * centered).mT @ centered / n
    spread = scatter.diagonal().sqrt()
    columns = centered / spread
    return columns @ root_of(scatter / torch.outer(spread, spread), -0.5), columns


def views(rows):
    """Return (name, Gram matrix, share of its view) for every kernel."""
    rank = rows.shape[1]
    whole = 1 if rank > 1 else 0.7  # one column has no pairs
    columns = (rows - rows.mean(0)) / rows.std(0, correction=0)
    whitened = columns @ root_of(columns.mT @ columns / len(rows), -0.5)
    robust, components = robust_units(columns)
    for part in (whitened, robust / (1 + robust.square() / 3).sqrt()):
        squares = (part[:, None] - part).square().sum(-1)
        for gamma in (1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64):
            yield "rows", torch.exp(-gamma / (2 * rank) * squares), 0.4 / whole / 14
    for column in (*components.T, *robust.T):
        for gamma in (0.5, 2, 8, 32):
            yield "columns", column_gram(column, gamma, 32), 0.3 / whole / (2 * rank * 4)
    pairs = rank * (rank - 1) / 2
    for half in (components, robust):
        for c in range(rank):
            for d in range(c + 1, rank):
                for gamma in (0.5, 2, 8):
                    one, two = (column_gram(half[:, e], gamma, 8) for e in (c, d))
                    yield "pairs", one * two, 0.3 / (2 * pairs * 3)


def statistics(rows, gram):
    """Return ``sum over i != j of w_ij k_ij`` for every kernel, in the order of `views`."""
    weights = weights_of(gram)
    return torch.stack([(weights * view).sum() for _, view, _ in views(rows)])


def shares_and_deviations(measure, rank):
    """Return share, standard deviation and size of each statistic, in the order of `views`.

    They are numbers of the library, which depend on the features and the rank alone.
    """
    scorers = measure.scorers(rank)
    counts = (1, 1, 2 * rank, rank * (rank - 1))
    shares, deviations, sizes = [], [], []
    for scorer, count in zip(scorers, counts, strict=True):
        for _ in range(count):
            shares += [scorer.share] * scorer.deviation.numel()
            deviations.append(scorer.deviation.flatten())
            sizes.append(scorer.size.flatten())
    return torch.tensor(shares, dtype=torch.float64), torch.cat(deviations), torch.cat(sizes)


def value(measure, rows):
    """Return the weighted mean of the pseudo-Huber values of the statistics of a criterion."""
    shares, deviations, sizes = shares_and_deviations(measure, rows.shape[1])
    grams = [factor @ factor.mT for factor in feature_factors(measure.sensitive)]
    found = torch.stack([statistics(rows, gram) for gram in grams], 1).flatten()
    bent = 4 * (((found / deviations / 4) ** 2 + 1).sqrt() - 1)
    return (shares * deviations / sizes * bent).sum() / measure.reference
