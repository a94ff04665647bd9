"""The error of a table at its best factor, one column of the table at a time."""

import torch

from parafair.algebra.coupled import SHRINKAGE
from parafair.losses import LOSSES
from tests.reference.losses import minimize, negative_log_likelihood


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


def linked_error(name, table, rows, share):
    """The same with the deviance of a loss in its place, minimized by automatic differentiation.

    Args:
        name: The loss, with its default settings.
        table: ``Y``, NaN where missing, shape (people, columns).
        rows: ``A``, shape (people, rank); no gradient goes through the best ``D``.
        share: The share ``s``.

    Returns:
        The error, the best ``D`` and the best intercepts.
    """
    columns, fixed = table.shape[1], rows.detach()
    begin = [rows.new_zeros(columns, rows.shape[1]), rows.new_zeros(columns)]
    best = minimize(lambda found: linked_sum(name, table, fixed, *found, share), begin)
    return linked_sum(name, table, rows, *best, share), *best


def linked_sum(name, table, rows, factor, intercepts, share):
    """The deviance of a table, and the size of its model times a share."""
    known = ~table.isnan()
    model, values = (rows @ factor.T + intercepts)[known], table[known]
    deviance = 2 * (negative_log_likelihood(name, values, model) - LOSSES[name].saturated(values))
    sizes = rows.square().sum(0) * factor.square().sum(0)
    return deviance.sum() + share * sizes.sum()
