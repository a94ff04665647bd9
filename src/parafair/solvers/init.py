"""Initial factors: random, from singular vectors, or given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor, stack_factors
from parafair.arguments import items, one_of, to_numpy, whole_number
from parafair.data.arrays import to_tensor
from parafair.errors import shown
from parafair.solvers.problem import Problem
from parafair.solvers.sharing import own_rows
from parafair.solvers.tucker_start import tucker_start

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
            factors) or a list of factors to start from. Non-negative factors start at absolute
            values.
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
        if problem.structure is not None:
            return tucker_start(problem, problem.structure)
        found = [_singular_vectors(problem, mode, generator)[None] for mode in range(problem.order)]
        return _allowed(problem, found)
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
    stacked = [factor.to(problem.prototype) for factor in stack_factors(drawn)]
    return _allowed(problem, own_rows(problem, stacked))


def _allowed(problem: Problem, factors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return factors that the problem allows."""
    if problem.structure is not None:
        return (factors[0], problem.structure.project(factors[1]))
    if not problem.non_negative:
        return tuple(factors)
    found = [f.abs() if mode in problem.non_negative else f for mode, f in enumerate(factors)]
    others = [mode for mode in range(problem.order) if mode not in problem.non_negative]
    if others:
        # A non-negative column whose component has the wrong sign would become zero, and stay so.
        own = problem.non_negative[0]
        target = problem.observations.sums(found).target(own)
        along = problem.teams[own].sum((target * found[own]).sum(-2, keepdim=True))
        found[others[0]] = torch.where(along < 0, -found[others[0]], found[others[0]])
    return tuple(found)


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
        _check_weights(weights, problem.rank)
        copies[problem.mode] = copies[problem.mode] * weights.to(problem.prototype)
    if not all(torch.isfinite(copy).all() for copy in copies):
        raise ValueError(
            "init must have finite entries, but has NaN or infinite ones; pass finite factors"
        )
    for mode in problem.non_negative:
        if (copies[mode] < 0).any():
            raise ValueError(
                f"init must have no negative entries in mode {mode}, which is non_negative, got "
                f"{float(copies[mode].min()):g}; pass its absolute value, or leave non_negative out"
            )
    return tuple(copy[None] for copy in own_rows(problem, copies))


def _check_weights(weights: Tensor, rank: int) -> None:
    """Raise unless there is one weight per component, none of them zero or infinite."""
    if weights.shape != (rank,):
        raise ValueError(
            f"weights of init must have one number for each of the {rank} components, got shape "
            f"{tuple(weights.shape)}; pass None if all are 1"
        )
    bad = ~torch.isfinite(weights) | (weights == 0)
    if bad.any():
        first = int(bad.nonzero()[0])
        raise ValueError(
            f"weights of init must be finite and not 0, got {float(weights[first]):g} for "
            f"component {first}; leave such components out, or start with fewer"
        )
