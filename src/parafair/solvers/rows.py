"""Rows of one mode with all other factors fixed, for losses that are no squared error."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.nnls import pass_columns_of_rows, solve_non_negative
from parafair.algebra.row_grams import RowGrams, from_pairs, places_of, solve_rows, times
from parafair.solvers.deviance import Deviance

# Steps of Newton at most, and how often one is shortened to a quarter.
MOST_STEPS, MOST_SHORTER = 100, 8

# A step must decrease the loss by this share of what its slope promises.
DECREASE = 1e-4

# Passes over the columns before pivoting, and what is added to the mean diagonal of its matrices.
PASSES, DAMPING = 5, 1e-9


class RowTerm(Protocol):
    """A further function of the same rows; see `parafair.solvers.linked_table`."""

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return half its value in each row, the slope of that, and triangles of its curvature."""


def minimize_rows(
    deviance: Deviance,
    factors: Factors,
    mode: int,
    *,
    ridge: Tensor | None,
    non_negative: bool = False,
    side: RowTerm | None = None,
) -> Tensor:
    """Return the rows of a mode with the smallest deviance and ridge, shape (batch, n, rank).

    Every row takes Newton's steps of its own, shortened until its loss decreases: the losses are
    convex in a row.

    Args:
        deviance: The deviance.
        factors: Each (batch, size, rank); that of the mode is where the rows begin.
        mode: The mode.
        ridge: Added to the diagonals of the Gram matrices, shape (batch, rank); None for none.
        non_negative: Whether rows are non-negative. Steps then lead to the non-negative minimizer
            of Newton's model of the loss, or towards it.
        side: A further convex function of the rows; None for none.
    """
    parts = list(factors)
    rank, like = factors[mode].shape[-1], factors[mode]
    held = like.new_zeros(len(like), 1, rank) if ridge is None else ridge.unsqueeze(-2)

    def sums(rows: Tensor) -> tuple[Tensor, Tensor, RowGrams]:
        parts[mode] = rows
        loss, entries = deviance.loss, deviance.entries
        value, slope, triangles = entries.of_rows(loss, loss.curvature, parts, deviance.fixed, mode)
        assert triangles is not None
        if side is not None:
            more, of_more, curved = side.of_rows(rows)
            value, slope, triangles = value + more, slope + of_more, triangles + curved
        value = value + (held * rows.square()).sum(-1).double() / 2
        grams = RowGrams.of(triangles, rank).plus(held.squeeze(-2))
        return value, slope + held * rows, grams

    rows = factors[mode]
    value, slope, grams = sums(rows)
    tolerance = torch.finfo(like.dtype).eps ** 0.75
    for _ in range(MOST_STEPS):
        step = torch.empty_like(rows)
        for part, triangles in grams.parts():
            if non_negative:
                step[:, part] = _non_negative_step(triangles, slope[:, part], rows[:, part])
            else:
                step[:, part] = -solve_rows(triangles, slope[:, part])
        promised = (step * slope).sum(-1, dtype=torch.float64)
        if not (-promised > tolerance * (1 + value.abs())).any():
            break
        length = torch.ones_like(promised)
        for _ in range(MOST_SHORTER):
            # A comparison with NaN is false.
            after = sums(rows + length.unsqueeze(-1).to(step) * step)[0]
            good = after <= value + DECREASE * length * promised
            if good.all():
                break
            length = torch.where(good, length, length / 4)
        moved = torch.where(good, length, 0.0).unsqueeze(-1).to(step)
        rows = rows + moved * step
        value, slope, grams = sums(rows)
        if not moved.any():
            break
    return rows


def _non_negative_step(triangles: Tensor, slope: Tensor, rows: Tensor) -> Tensor:
    """Return the way to the non-negative minimizer of a quadratic model of each row.

    Args:
        triangles: Upper triangles of the Gram matrices, shape (batch, n, pairs).
        slope: The slopes at the rows, shape (batch, n, rank).
        rows: The rows, of the same shape.
    """
    rank = rows.shape[-1]
    places = places_of(rank, rows.device).diagonal()
    # A row with fewer entries than components has flat directions.
    more = DAMPING * triangles[..., places].mean(-1, keepdim=True).expand(*rows.shape)
    damped = triangles.index_add(-1, places, more)
    grams = from_pairs(damped, rank)
    target = times(grams, rows) - slope
    start = pass_columns_of_rows(target, grams, rows, passes=PASSES)
    parts = (part.reshape(-1, part.shape[-1]) for part in (target, damped, start))
    return solve_non_negative(*parts).reshape(rows.shape) - rows
