"""Where Tucker decompositions begin."""

from __future__ import annotations

from torch import Tensor

from parafair.algebra.tucker_tensor import Multilinear, leading, multiply
from parafair.solvers.problem import Problem

# Passes over all modes. More would be the work of the solver.
PASSES = 5


def tucker_start(problem: Problem, structure: Multilinear) -> tuple[Tensor, ...]:
    """Return a Tucker decomposition of the data by HOOI, with zero for missing entries.

    The rows of people are the first left singular vectors of the unfolded data; after that the
    bases of the other modes are the best ones for these rows, and the rows for these bases:
    De Lathauwer, De Moor and Vandewalle, "On the best rank-1 and rank-(R1, R2, ..., RN)
    approximation of higher-order tensors", 2000.

    Returns:
        Orthonormal rows (1, people, rank), and the factor (1, cells, rank) of all other modes.
    """
    if problem.data.is_sparse:
        raise ValueError("init='svd' needs dense data; use init='uniform' or 'normal'")
    entries = problem.data.values.nan_to_num(0.0)[None]
    rows = leading(entries, 0, problem.rank)
    bases, core = structure.split(entries.mT @ rows)
    for _ in range(PASSES):
        # People are the last mode of the transposed data.
        small = multiply(entries.unflatten(2, structure.sizes).movedim(1, -1), bases)
        rows = leading(small, len(bases), problem.rank)
        bases, core = structure.improve(entries.mT @ rows, bases, 1)
    return (rows, structure.join(bases, core))
