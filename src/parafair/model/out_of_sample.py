"""New people: least-squares rows, shifted like their training neighbors, optionally refined.

A penalty shifts training people away from their least-squares rows. A new person is shifted like
a near training person with the same sensitive features, so new people can be embedded one by
one; see `parafair.model.moving`. A model with noise knows neither the shifts nor the least-squares
rows of its training people exactly: shifts have noise, and released rows minus shifts stand for
least-squares rows.

A neighbor's shift hides less than a shift of one's own. Many new people can therefore be refined:
they jointly minimize the training objective, loss plus penalty, over their own rows.
Training people are excluded from the penalty. Their rows are fitted to the criterion, so including
them would place all new people of a group in the same gaps between training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.data.sensitive import SensitiveFeatures
from parafair.model.methods import Method, resolve_method
from parafair.penalties import BoundPenalty, Penalty
from parafair.penalties.base import is_scale_free
from parafair.penalties.bound import is_in_chunks
from parafair.solvers.dealing import ITERATIONS
from parafair.solvers.majorize import Iterate, majorize

# Refinement stops when a step decreases the objective by less than the share TOL.
MAX_STEPS, TOL = 500, 1e-4


def refining_penalty(
    method: str | Method,
    strength: float | None,
    features: SensitiveFeatures | None,
) -> Penalty:
    """Return the training penalty, for refinement; raise if refinement is impossible.

    Args:
        method: The method of the model.
        strength: Its strength, given or selected.
        features: Features of the new people.
    """
    if features is None:
        raise ValueError(
            "refine=True needs sensitive_features of the new people, got None; pass them"
        )
    penalty = resolve_method(method, strength if isinstance(method, str) else None)
    if not is_scale_free(penalty):
        raise ValueError(
            "refine=True needs a scale-free penalty such as method='invariant', got "
            f"method={method!r}; omit refine"
        )
    if strength is None:
        raise ValueError(
            "refine=True needs a strength, but with guarantee='release' people share places "
            "instead; omit refine"
        )
    return replace(penalty, strength=strength)  # type: ignore[type-var]


def refine_rows(
    near: Callable[[Tensor], Block], bound: BoundPenalty, rows: Tensor
) -> tuple[Tensor, bool]:
    """Return rows that minimize loss plus penalty, and whether they converged.

    Chunks of people are dealt anew every few steps; see `parafair.solvers.dealing`.

    Args:
        near: Returns the loss near given rows; for the squared error, it is always the same.
        bound: The penalty.
        rows: The initial rows, shape (people, rank).
    """
    if not is_in_chunks(bound):
        return _minimize(near, bound, rows, steps=MAX_STEPS)

    def judged(rows: Tensor) -> Tensor:
        return near(rows[None]).value(rows[None]) + bound.value(rows[None])

    after = judged(rows)
    for deal in range(1, MAX_STEPS // ITERATIONS + 1):
        before = after
        rows, _ = _minimize(near, bound.with_deal(deal), rows, steps=ITERATIONS)
        after = judged(rows)
        if before - after <= TOL * ITERATIONS * after:
            return rows, True
    return rows, False


def _minimize(
    near: Callable[[Tensor], Block], bound: BoundPenalty, rows: Tensor, *, steps: int
) -> tuple[Tensor, bool]:
    """Take at most so many majorize-minimize steps; return the rows, and whether they converged."""
    point = Iterate(rows[None], *bound.value_and_gradient(rows[None]))
    # Shifting one of n rows by 1 changes the penalty by about this much.
    curvature = point.value / len(rows)
    block = near(point.factor)
    after = block.value(point.factor) + point.value
    for _ in range(steps):
        before, last = after, point
        point, curvature, accepted = majorize(block, bound, point, curvature)
        block = near(point.factor)
        after = block.value(point.factor) + point.value
        if not accepted or not before - after > TOL * after:
            return (point if after <= before else last).factor[0], True
        curvature = curvature / 2
    return point.factor[0], False
