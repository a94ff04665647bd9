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
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.solvers.block import BlockDescent
from parafair.solvers.init import make_starts
from parafair.solvers.loop import OnIteration, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Stop
from parafair.solvers.sharing import gather_problem, own_rows

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
    complete = problem.count == prod(problem.shape) and not problem.data.is_sparse
    free = not problem.ridge and not problem.constrained and problem.table is None
    if not complete or not free or LEAST_GAIN * prod(kept) > prod(problem.shape):
        return None
    if problem.share is not None and kept[problem.mode] < problem.shape[problem.mode]:
        # So few people that every process can have all of them.
        rows = problem.share.whole(starts[problem.mode].movedim(1, 0)).movedim(0, 1)
        begun = (*starts[: problem.mode], rows, *starts[problem.mode + 1 :])
        whole = gather_problem(problem)
        few = compressed_fits(whole, begun, stop=stop, more=more, on_iteration=on_iteration)
        assert few is not None
        own = [own_rows(problem, fit.cp.factors) for fit in few]
        pairs = zip(few, own, strict=True)
        return tuple(replace(fit, cp=CPTensor.from_factors(factors)) for fit, factors in pairs)
    tensor = problem.data.values
    bases = [
        None if count == n else _directions(problem, mode, count)
        for mode, (count, n) in enumerate(zip(kept, problem.shape, strict=True))
    ]
    for basis in bases:  # each contraction moves the next mode to the front
        moved = tensor.movedim(0, -1)
        tensor = moved if basis is None else moved @ basis
    # Offsets were subtracted, and have the sizes of the data.
    compressed = TensorData(tensor.contiguous())
    small = replace(problem, data=compressed, sensitive=None, offsets=None)
    begun = tuple(
        start if basis is None else basis.mT @ start
        for basis, start in zip(bases, starts, strict=True)
    )
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


def _expanded(cp: CPTensor, bases: list[Tensor | None]) -> CPTensor:
    """Return a decomposition of the compressed tensor in the original units."""
    return CPTensor.from_factors(
        [
            factor if basis is None else basis @ factor
            for basis, factor in zip(bases, cp.factors, strict=True)
        ]
    )


def _directions(problem: Problem, mode: int, count: int) -> Tensor:
    """Return the first left singular vectors of an unfolding, shape (size, count)."""
    unfolded = problem.data.values.movedim(mode, 0).flatten(1)
    # That of the people is of one process alone.
    gram = problem.team.sum(unfolded @ unfolded.mT)
    vectors: Tensor = torch.linalg.eigh(gram)[1]
    return vectors[:, -count:]
