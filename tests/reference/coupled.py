"""The error of a table at its best factor, one column of the table at a time."""

import torch

from parafair.algebra.coupled import SHRINKAGE


def table_error(table, rows):
    """``min over D of ||Y - A D^T||^2 + s sum_r ||A_r||^2 ||D_r||^2``; autograd goes through it.

    Args:
        table: ``Y``, NaN where missing, shape (people, columns).
        rows: ``A``, shape (people, rank).
    """
    shrinkage = SHRINKAGE * torch.diag(rows.square().sum(0))
    error = rows.new_zeros(())
    for column in table.T:
        known = ~column.isnan()
        own, values = rows[known], column[known]
        best = torch.linalg.solve(own.T @ own + shrinkage, own.T @ values)
        error = error + (values - own @ best).square().sum() + best @ shrinkage @ best
    return error
