"""A penalty as a function of the factors of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.penalties import BoundInvariant, BoundPenalty, Penalty
from parafair.penalties.base import is_scale_free
from parafair.penalties.bound import BoundShared, restrict_rows
from parafair.solvers.parameters import parameter_of, pull_back, to_factors, to_parameters
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
        size = len(problem.present[mode])
        found[mode] = bound if rows is None else restrict_rows(bound, rows, size)
    return found


def reference_of(problem: Problem) -> Tensor:
    """Return numbers with the units of the loss, from which a penalty takes its own."""
    in_memory = not problem.data.zeros_count and not problem.data.is_streamed
    if problem.is_squared and problem.share is None and in_memory:
        return problem.observations.values
    return problem.prototype.new_full((1,), (problem.total / problem.count) ** 0.5)


def penalty_of(problem: Problem, factors: Factors) -> Tensor | None:
    """Return the sum of the penalties of all modes, shape (batch,); None without any."""
    if problem.scores is not None:
        return problem.scores.value(factors)
    # Bases are determined up to invertible matrices, which penalties on them do not see.
    parts = to_parameters(factors, problem.structure) if problem.other_sensitive else factors
    values = [
        bound.value(parts[parameter_of(mode, problem.structure)])
        for mode, bound in problem.bound_by_mode.items()
    ]
    return torch.stack(values).sum(0) if values else None


def penalty_and_gradients(
    problem: Problem, parameters: Factors
) -> tuple[Tensor | None, dict[int, Tensor]]:
    """Return the sum of the penalties, None without any, and its gradients by parameter.

    Args:
        problem: The problem.
        parameters: Each (batch, size, rank); the factors, unless one of them has a structure.
    """
    if problem.scores is not None:
        factors = to_factors(parameters, problem.structure)
        value, found = problem.scores.value_and_gradients(factors)
        return value, dict(enumerate(pull_back(parameters, found, problem.structure)))
    values, gradients = [], {}
    for mode, bound in problem.bound_by_mode.items():
        place = parameter_of(mode, problem.structure)
        value, gradients[place] = bound.value_and_gradient(parameters[place])
        values.append(value)
    return torch.stack(values).sum(0) if values else None, gradients
