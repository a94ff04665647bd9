"""Plain decompositions of a small tensor, as starts for those of a large one.

A decomposition of rank R needs few directions of each mode. So the tensor is projected on the first
few left singular vectors of each of its unfoldings, and fits begin there: Bro and Andersson,
"Improving the speed of multiway algorithms, part II: compression", 1998. Of a large tensor, one
mode after the other is projected, so that only the first sees all of it: Vannieuwenhoven,
Vandebril and Meerbergen, "A new truncation strategy for the higher-order singular value
decomposition", 2012.
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

# A mode is compressed if its unfolding has at most so many rows or columns: the time for its
# directions grows with the square of the smaller number. Many people with few entries each have
# few columns.
MOST_INDICES = 2000

# From so many entries on, directions are those of what is left after the modes before. Those of the
# whole take milliseconds with fewer.
LEAST_IN_TURN = 10**6

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
    kept = [_kept(problem, mode) for mode in range(problem.order)]
    complete = problem.count == prod(problem.shape) and not problem.data.is_sparse
    free = not problem.ridge and not problem.constrained and problem.table is None
    if not complete or not free or LEAST_GAIN * prod(kept) > prod(problem.shape):
        return None
    if problem.share is not None and problem.shape[problem.mode] <= MOST_INDICES:
        # So few people that every process can have all of them.
        rows = problem.share.whole(starts[problem.mode].movedim(1, 0)).movedim(0, 1)
        begun = (*starts[: problem.mode], rows, *starts[problem.mode + 1 :])
        whole = gather_problem(problem)
        few = compressed_fits(whole, begun, stop=stop, more=more, on_iteration=on_iteration)
        assert few is not None
        own = [own_rows(problem, fit.cp.factors) for fit in few]
        pairs = zip(few, own, strict=True)
        return tuple(replace(fit, cp=CPTensor.from_factors(factors)) for fit, factors in pairs)
    tensor, bases = _projected(problem, kept)
    # Every process has the whole tensor if the people are compressed. Offsets were subtracted, and
    # have the sizes of the data.
    compressed = TensorData(tensor.contiguous())
    share = problem.share if bases[problem.mode] is None else None
    small = replace(problem, data=compressed, sensitive=None, offsets=None, share=share)
    begun = tuple(
        start if basis is None else _over(problem, mode, basis.mT @ start)
        for mode, (basis, start) in enumerate(zip(bases, starts, strict=True))
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


def _kept(problem: Problem, mode: int) -> int:
    """Return how many directions of a mode are kept; its size if it is not compressed."""
    n, directions = problem.shape[mode], DIRECTIONS * problem.rank
    few = min(n, prod(problem.shape) // n) <= MOST_INDICES
    return directions if few and directions < n else n


def _over(problem: Problem, mode: int, sums: Tensor) -> Tensor:
    """Return sums over the indices of a mode, over the people of all processes."""
    return problem.team.sum(sums) if mode == problem.mode else sums


def _projected(problem: Problem, kept: list[int]) -> tuple[Tensor, list[Tensor | None]]:
    """Return the compressed tensor, and the directions of each mode; None if all are kept.

    Args:
        problem: The problem.
        kept: How many directions of each mode are kept.
    """
    tensor = problem.data.values
    bases: list[Tensor | None] = [None] * problem.order
    in_turn = prod(problem.shape) >= LEAST_IN_TURN
    for mode in _cheapest_first(problem.shape, kept):
        # Once the people are projected, every process has the whole tensor.
        shared = bases[problem.mode] is None or not in_turn
        seen = tensor if in_turn else problem.data.values
        unfolded = seen.movedim(mode, 0).flatten(1)
        basis = bases[mode] = _directions(problem, unfolded, mode, kept[mode], shared=shared)
        moved = tensor.movedim(mode, 0)
        projected = _over(problem, mode, basis.mT @ moved.flatten(1))
        tensor = projected.unflatten(1, moved.shape[1:]).movedim(0, mode)
    return tensor, bases


def _cheapest_first(shape: tuple[int, ...], kept: list[int]) -> list[int]:
    """Return the modes to project, in order: the later ones see a smaller tensor."""
    whole = prod(shape)
    modes = [mode for mode, (count, n) in enumerate(zip(kept, shape, strict=True)) if count < n]
    # Of equal ones the last: its entries are next to each other.
    return sorted(modes, key=lambda mode: (min(shape[mode], whole // shape[mode]), -mode))


def _directions(
    problem: Problem, unfolded: Tensor, mode: int, count: int, *, shared: bool
) -> Tensor:
    """Return the first left singular vectors of an unfolding, shape (size, at most count).

    Args:
        problem: The problem.
        unfolded: The unfolding, whose rows are the indices of the mode.
        mode: The mode.
        count: Number of vectors.
        shared: Whether each process has the entries of its own people alone.
    """

    def total(sums: Tensor) -> Tensor:
        return problem.team.sum(sums) if shared else sums

    if problem.shape[mode] <= MOST_INDICES:
        return _leading(total(unfolded @ unfolded.mT), count)[1]
    values, vectors = _leading(total(unfolded.mT @ unfolded), count)
    # Directions that the data do not have would be rounding errors.
    kept = values > values[-1] * torch.finfo(values.dtype).eps ** 0.5
    return unfolded @ (vectors[:, kept] / values[kept].sqrt())


def _leading(gram: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalues of a Gram matrix, ascending, and their vectors."""
    values, vectors = torch.linalg.eigh(gram)
    return values[-count:], vectors[:, -count:]
