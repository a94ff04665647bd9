"""Where a fit with a loss that is no squared error begins."""

from __future__ import annotations

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.solvers.problem import Problem

# A start may be worse than a model without components, by this share: a random one always is.
WORSE = 0.1

# The people's factor becomes smaller by this, at most so often.
SMALLER, MOST_SMALLER = 4.0, 30


def scale_down(problem: Problem, factors: Factors) -> tuple[Tensor, ...]:
    """Return factors with the people's made smaller until the model is hardly worse than none.

    On the scale of a link, random factors may mean huge numbers.

    Args:
        problem: The problem.
        factors: Each (batch, size, rank).
    """
    found = list(factors)
    people = found[problem.mode]
    # A model without components: intercepts alone.
    none = [torch.zeros_like(factor[:1]) for factor in factors]
    most = (1 + WORSE) * problem.loss_of(none)
    scale = people.new_ones(len(people))
    for _ in range(MOST_SMALLER):
        found[problem.mode] = people * scale[:, None, None]
        # A comparison with NaN is false.
        worse = ~(problem.loss_of(found) <= most)
        if not worse.any():
            break
        scale = torch.where(worse, scale / SMALLER, scale)
    return tuple(found)
