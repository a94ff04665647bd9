"""Plain decompositions of a small tensor, as starts for those of a large one.

A decomposition of rank R needs few directions of each mode. So the tensor is projected on the first
few left singular vectors of each of its unfoldings, and fits begin there: Bro and Andersson,
"Improving the speed of multiway algorithms, part II: compression", 1998.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.algebra.observed import CompleteObservations
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.solvers.block import BlockDescent
from parafair.solvers.init import make_starts
from parafair.solvers.loop import OnIteration, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop

# Directions kept of each mode, for each component.
DIRECTIONS = 3

# A mode with more indices is not compressed: the time for its directions grows with their square.
MOST_INDICES = 2000

# A tensor is compressed if it becomes smaller by at least this factor.
LEAST_GAIN = 8


def compressed_fits(
    problem: Problem,
    starts: tuple[Tensor, ...],
    *,
    stop: Stop,
    more: int = 0,
    on_iteration: OnIteration | None = None,
) -> tuple[Fit, ...] | None:
    """Return decompositions of the compressed tensor, with factors in the original units.

    None if the tensor has missing entries or would not become small, and with a ridge, side
    information or constrained factors. Objectives are those of the
    compressed tensor.

    Args:
        problem: The problem, without penalty.
        starts: One factor (batch, size, rank) per mode.
        stop: When a member stops.
        more: Number of further starts, which are cheap here. They are normal, and always the same;
            their fits come last.
        on_iteration: Called after each iteration, as in `solve_batch`.
    """
    directions = DIRECTIONS * problem.rank
    kept = [directions if directions < n <= MOST_INDICES else n for n in problem.shape]
    complete = isinstance(problem.observations, CompleteObservations)
    free = not problem.ridge and not problem.constrained and problem.table is None
    if not complete or not free or LEAST_GAIN * prod(kept) > prod(problem.shape):
        return None
    tensor = problem.data.values
    bases = [_directions(tensor, mode, count) for mode, count in enumerate(kept)]
    for basis in bases:  # each contraction moves the next mode to the front
        tensor = torch.tensordot(tensor, basis, ([0], [0]))
    small = replace(problem, data=TensorData(tensor), sensitive=None)
    begun = tuple(basis.mT @ start for basis, start in zip(bases, starts, strict=True))
    if more:
        others = make_starts(small, "normal", count=more, seed=0)
        begun = tuple(torch.cat(both) for both in zip(begun, others, strict=True))
    try:
        found = solve_batch(
            small,
            BlockDescent(),
            starts=begun,
            stop=stop,
            on_iteration=on_iteration,
        )
    except Interrupted as interruption:
        fit = interruption.fit
        raise Interrupted(replace(fit, cp=_expanded(fit.cp, bases))) from interruption
    return tuple(replace(fit, cp=_expanded(fit.cp, bases)) for fit in found)


def _expanded(cp: CPTensor, bases: list[Tensor]) -> CPTensor:
    """Return a decomposition of the compressed tensor in the original units."""
    return CPTensor.from_factors(
        [basis @ factor for basis, factor in zip(bases, cp.factors, strict=True)]
    )


def _directions(tensor: Tensor, mode: int, count: int) -> Tensor:
    """Return the first left singular vectors of an unfolding, shape (size, count)."""
    unfolded = tensor.movedim(mode, 0).flatten(1)
    if count == len(unfolded):
        return torch.eye(count, dtype=tensor.dtype, device=tensor.device)
    vectors: Tensor = torch.linalg.eigh(unfolded @ unfolded.mT)[1]
    return vectors[:, -count:]
