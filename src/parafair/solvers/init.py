"""Initial factors: random, from singular vectors, or given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.arguments import items, one_of, to_numpy, whole_number
from parafair.data.arrays import to_tensor
from parafair.errors import shown
from parafair.solvers.problem import Problem

InitName: TypeAlias = Literal["uniform", "normal", "svd"]
INITS = ("uniform", "normal", "svd")
RANDOM_INITS = ("uniform", "normal")

# A batch of more starts is a mistake, not a fit.
MOST_STARTS = 100_000


def make_starts(
    problem: Problem, init: InitName | CPTensor | Sequence[Any], *, count: int, seed: int
) -> tuple[Tensor, ...]:
    """Return initial factors for a batch of fits, each of shape (count, size, rank).

    Args:
        problem: The problem; sets shapes, dtype and device.
        init: "uniform" draws from U(0, 1), as in the paper; "normal" from N(0, 1); "svd" takes
            the leading left singular vectors of each unfolding; or a CP tensor, (weights,
            factors) or a list of factors to start from.
        count: Number of starts. Start number i does not depend on the count.
        seed: Seed of the random numbers, which are always drawn on the CPU.
    """
    whole_number("n_init", count, most=MOST_STARTS)
    if isinstance(init, str):
        one_of("init", init, INITS)
    elif not isinstance(init, Iterable):
        raise ValueError(
            f"init must be one of {', '.join(INITS)}, or factors, one matrix per mode; got "
            f"{shown(init)}"
        )
    if count > 1 and not (isinstance(init, str) and init in RANDOM_INITS):
        raise ValueError(
            f"n_init={count} needs random starts, but init is not random; use init='uniform' or "
            "'normal', or n_init=1"
        )
    generator = torch.Generator().manual_seed(seed)
    if isinstance(init, str) and init == "svd":
        return tuple(
            _singular_vectors(problem, mode, generator)[None] for mode in range(problem.order)
        )
    if not isinstance(init, str):
        return _given(problem, init)
    draw = torch.rand if init == "uniform" else torch.randn
    drawn = [
        [
            draw(size, problem.rank, generator=generator, dtype=torch.float64, device="cpu")
            for size in problem.shape
        ]
        for _ in range(count)
    ]
    return tuple(torch.stack(mode).to(problem.prototype) for mode in zip(*drawn, strict=True))


def _singular_vectors(problem: Problem, mode: int, generator: torch.Generator) -> Tensor:
    """Return leading left singular vectors of an unfolding, padded with normal columns."""
    if problem.data.is_sparse:
        raise ValueError("init='svd' needs dense data; use init='uniform' or 'normal'")
    unfolded = problem.data.values.movedim(mode, 0).flatten(1).nan_to_num(0.0)
    size, rank = len(unfolded), problem.rank
    if size <= unfolded.shape[1]:
        vectors = torch.linalg.eigh(unfolded @ unfolded.mT)[1].flip(1)
    else:
        vectors = torch.linalg.svd(unfolded, full_matrices=False)[0]
    missing = max(0, rank - vectors.shape[1])
    filling = torch.randn(size, missing, generator=generator, dtype=torch.float64, device="cpu")
    return torch.cat([vectors[:, :rank], filling.to(vectors)], 1)


def read_factors(init: CPTensor | Sequence[Any]) -> tuple[Tensor | None, list[Tensor]]:
    """Return weights, or None, and factors of a CP tensor, of such a pair or of a list."""
    parts = items("init", init, "factors, one matrix per mode")
    weights = None
    if len(parts) == 2 and (parts[0] is None or to_numpy(parts[0], "init").ndim == 1):
        weights, parts = parts[0], items("factors of init", parts[1], "matrices, one per mode")
    factors = [to_tensor(factor, "init") for factor in parts]
    return None if weights is None else to_tensor(weights, "init"), factors


def _given(problem: Problem, init: CPTensor | Sequence[Any]) -> tuple[Tensor, ...]:
    """Check factors given by the user and add a batch dimension."""
    weights, factors = read_factors(init)
    # Copies: a solver must not change the caller's factors.
    copies = [factor.to(problem.prototype, copy=True) for factor in factors]
    expected = [(size, problem.rank) for size in problem.shape]
    if [tuple(copy.shape) for copy in copies] != expected:
        raise ValueError(
            f"init must hold factors of shapes {expected}, got "
            f"{[tuple(copy.shape) for copy in copies]}; one (size, rank) matrix per mode"
        )
    if weights is not None:
        copies[problem.mode] = copies[problem.mode] * weights.to(problem.prototype)
    if not all(torch.isfinite(copy).all() for copy in copies):
        raise ValueError(
            "init must have finite entries, but has NaN or infinite ones; pass finite factors"
        )
    return tuple(copy[None] for copy in copies)
