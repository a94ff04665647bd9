"""A penalty as a function of the factors of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from parafair.penalties import BoundInvariant, BoundPenalty, Penalty
from parafair.penalties.base import is_scale_free
from parafair.penalties.bound import BoundShared, restrict_rows
from parafair.solvers.penalized import penalized_of

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


def bind_penalty(problem: Problem, penalty: Penalty) -> dict[int, BoundPenalty]:
    """Return the bound penalty of each mode with sensitive features."""
    found = {}
    for mode, sensitive in problem.sensitive_by_mode.items():
        rows, features = penalized_of(problem, mode, sensitive)
        bound = penalty.bind(features, reference_of(problem))
        if is_scale_free(penalty) and not isinstance(bound, BoundInvariant):
            raise TypeError(
                f"{type(penalty).__name__} is scale_free, but its bound penalty has no "
                "`basis`; return a parafair.penalties.BoundInvariant from bind"
            )
        if problem.share is not None and mode == problem.mode:
            assert isinstance(bound, BoundShared)
            bound = bound.of_people(problem.share.among, problem.team)
        size = problem.data.shape[mode]
        found[mode] = bound if rows is None else restrict_rows(bound, rows, size)
    return found


def reference_of(problem: Problem) -> Tensor:
    """Return numbers with the units of the loss, from which a penalty takes its own."""
    in_memory = not problem.data.zeros_count and not problem.data.is_streamed
    if problem.is_squared and problem.share is None and in_memory:
        return problem.observations.values
    return problem.prototype.new_full((1,), (problem.total / problem.count) ** 0.5)
