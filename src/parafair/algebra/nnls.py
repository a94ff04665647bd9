"""Non-negative least squares for many rows at once: ``min a G a - 2 a m`` over ``a >= 0``.

Rows share one ``G`` or have one each. Two methods are here. A pass over the columns minimizes over
one column at a time, exactly: Cichocki and Phan, "Fast local algorithms for large scale nonnegative
matrix and tensor factorizations", 2009. It never increases the value, and a few passes are enough
within an iteration of a solver. Pivoting is exact: Kim and Park, "Fast nonnegative matrix
factorization: an active-set-like method and comparisons", 2011.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.row_grams import from_pairs, solve_rows, times

# Pivoting exchanges all variables with wrong signs, as long as their number falls every few times;
# after that it exchanges one, which always ends. Rows that have not ended then keep what passes
# over the columns found.
PATIENCE, MOST_PIVOTS = 3, 100


def pass_columns(target: Tensor, gram: Tensor, factor: Tensor, *, passes: int) -> Tensor:
    """Return the factor after passes over its columns; rows share one ``G``.

    Args:
        target: ``M``, shape (batch, n, rank).
        gram: ``G``, shape (batch, rank, rank).
        factor: Where to begin; non-negative, shape (batch, n, rank).
        passes: Number of passes.
    """
    # With the others fixed, the best column is max(0, (m_r - sum_s G_rs a_s) / G_rr), s != r.
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    inverse = torch.where(diagonal > 0, diagonal.reciprocal(), 0.0).unsqueeze(-1)
    others = (gram - torch.diag_embed(diagonal)) * inverse
    # Columns become rows, which are contiguous in memory.
    found = factor.mT.clone(memory_format=torch.contiguous_format)
    right = target.mT.contiguous() * inverse
    for _ in range(passes):
        for r in range(found.shape[1]):
            one = slice(r, r + 1)
            best = torch.baddbmm(right[:, one], others[:, one], found, alpha=-1)
            found[:, one] = best.clamp_min_(0.0)
    return found.mT


def pass_columns_of_rows(target: Tensor, grams: Tensor, factor: Tensor, *, passes: int) -> Tensor:
    """Return the same for rows with one ``G`` each.

    Args:
        target: Shape (batch, n, rank).
        grams: Shape (batch, n, rank, rank).
        factor: Where to begin; non-negative, shape (batch, n, rank).
        passes: Number of passes.
    """
    found = factor.movedim(-1, 0).clone(memory_format=torch.contiguous_format)
    every = grams.movedim((-2, -1), (0, 1)).contiguous()
    inverse = [
        torch.where(every[r, r] > 0, every[r, r].reciprocal(), 0.0) for r in range(len(found))
    ]
    for _ in range(passes):
        for r, own in enumerate(inverse):
            slope = target[..., r] - (every[r] * found).sum(0)
            found[r] = torch.addcmul(found[r], slope, own).clamp_min_(0.0) * (own > 0)
    return found.movedim(0, -1)


def solve_non_negative(target: Tensor, triangles: Tensor, start: Tensor) -> Tensor:
    """Return the exact non-negative minimizer for every row, by block principal pivoting.

    Args:
        target: ``m`` of each row, shape (n, rank).
        triangles: Upper triangles of ``G``, shape (n, pairs), as in `parafair.algebra.row_grams`.
        start: A non-negative guess, shape (n, rank). Rows for which pivoting does not end, or ends
            higher because of rounding, keep it.
    """
    rank, found = target.shape[-1], start.clone()
    first, second = torch.triu_indices(rank, rank, device=target.device)
    rows, positive = torch.arange(len(target), device=target.device), start > 0
    fewest = torch.full_like(rows, rank + 1)
    patience = torch.full_like(rows, PATIENCE)
    for _ in range(MOST_PIVOTS):
        own, right = triangles[rows], target[rows]
        among = positive[:, first] & positive[:, second]
        masked = torch.where(among, own, 0.0)
        masked[:, first == second] += (~positive).to(own)
        solved = torch.where(
            positive, solve_rows(masked[None], right.where(positive, 0.0)[None])[0], 0.0
        )
        slope = times(from_pairs(own, rank), solved) - right
        rounding = 10 * rank * torch.finfo(own.dtype).eps
        wrong = torch.where(
            positive,
            solved < -rounding * solved.abs().amax(-1, keepdim=True),
            slope < -rounding * right.abs().amax(-1, keepdim=True),
        )
        count = wrong.sum(-1)
        done = count == 0
        found[rows[done]] = _better(own[done], right[done], solved[done], found[rows[done]])
        if bool(done.all()):
            break
        left = ~done
        rows, positive, wrong, count = rows[left], positive[left], wrong[left], count[left]
        fewer = count < fewest[left]
        fewest = torch.where(fewer, count, fewest[left])
        patience = torch.where(fewer, PATIENCE, patience[left] - 1)
        last = torch.zeros_like(wrong)
        places = torch.arange(rank, device=target.device)
        last[torch.arange(len(rows), device=target.device), (wrong * (places + 1)).argmax(-1)] = (
            True
        )
        positive = positive ^ torch.where((patience >= 0)[:, None], wrong, last)
    return found


def _better(triangles: Tensor, target: Tensor, solved: Tensor, guess: Tensor) -> Tensor:
    """Return the non-negative part of the solution, or the guess where that is better."""
    grams = from_pairs(triangles, target.shape[-1])

    def value(rows: Tensor) -> Tensor:
        return ((times(grams, rows) - 2 * target) * rows).sum(-1, keepdim=True)

    solved = solved.clamp_min(0.0)
    best, known = value(solved), value(guess)
    rounding = 10 * torch.finfo(best.dtype).eps * (best.abs() + known.abs())
    return torch.where(best <= known + rounding, solved, guess)
