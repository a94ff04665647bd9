"""Transport by enumeration and by the textbook linear program, for a handful of people."""

from itertools import permutations, product

import numpy as np
from scipy.optimize import linprog


def squared_distance(x, y) -> float:
    return float(((x - y) ** 2).sum())


def best_permutation(x, y) -> float:
    """W2**2 of two groups of equal size: the best of all pairings."""
    return min(
        np.mean([squared_distance(x[i], y[j]) for i, j in enumerate(order)])
        for order in permutations(range(len(y)))
    )


def coupling_cost(groups, mass: float = 1.0) -> float:
    """The least E sum_{g<h} p_g p_h |x_g - x_h|**2 over couplings of this mass."""
    sizes = [len(group) for group in groups]
    shares = np.array(sizes) / sum(sizes)
    cells = list(product(*map(range, sizes)))
    costs = []
    for cell in cells:
        rows = [group[i] for group, i in zip(groups, cell, strict=True)]
        mean = sum(p * row for p, row in zip(shares, rows, strict=True))
        losses = [squared_distance(row, mean) for row in rows]
        costs.append(shares @ losses)
    constraints, limits = [], []
    for g, size in enumerate(sizes):
        for person in range(size):
            constraints.append([float(cell[g] == person) for cell in cells])
            limits.append(1 / size)
    everything = np.ones((1, len(cells)))
    unit = max(*costs, 1e-300)  # the tolerances of the solver are absolute
    found = linprog(np.array(costs) / unit, constraints, limits, everything, [mass])
    return float(unit * found.fun)
