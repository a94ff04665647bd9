"""Quasi-Newton steps on all factors at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors, gram, product_of
from parafair.arguments import whole_number
from parafair.penalties import BoundInvariant
from parafair.solvers.block import carry_scale
from parafair.solvers.objective import Objective
from parafair.solvers.preconditioner import Part, preconditioner
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep
from parafair.solvers.wolfe import Point, search

# Rows without entries have no curvature of their own; they count as if they had this share.
LEAST_WEIGHT = 1e-3

# A decrease below this many rounding errors cannot be told from none.
ROUNDINGS = 10


@dataclass(frozen=True, eq=False)
class LBFGSState:
    """State of L-BFGS.

    Attributes:
        point: All factors as one vector, with the objective and its gradient.
        steps: Differences between the last points, oldest first, shape (batch, pairs, N); zero
            where a pair has no positive curvature or was dropped.
        changes: Differences between their gradients, of the same shape.
        evaluations: Evaluations of the objective, shape (batch,).
        restarts: How often the differences were dropped, shape (batch,).
        curvature: Estimated curvature of the penalty of each mode with one, shape (batch,).
        stalled: Where no step decreased the objective, shape (batch,).
        settled: The same at a stationary point, up to rounding, shape (batch,).
        shape: Sizes of the modes.
        mode: The mode that carries the scale in `factors`.
        weights: Entries of each row of a mode over their mean; None if all are equal.
    """

    point: Point
    steps: Tensor
    changes: Tensor
    evaluations: Tensor
    restarts: Tensor
    curvature: Mapping[int, Tensor]
    stalled: Tensor
    settled: Tensor
    shape: tuple[int, ...]
    mode: int
    weights: tuple[Tensor | None, ...]

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The factors; as in `BlockDescent`, the sensitive mode carries the scale."""
        return carry_scale(unflatten(self.point.vector, self.shape), self.mode)

    @property
    def objective(self) -> Objective:
        """The objective."""
        return self.point.objective

    @property
    def counts(self) -> dict[str, Tensor]:
        """Evaluations of the objective, and how often the differences were dropped."""
        return {"evaluations": self.evaluations, "restarts": self.restarts}

    def take(self, members: Tensor) -> LBFGSState:
        """Return the state of some members."""
        return replace(
            self,
            point=self.point.take(members),
            steps=self.steps[members],
            changes=self.changes[members],
            evaluations=self.evaluations[members],
            restarts=self.restarts[members],
            curvature={mode: value[members] for mode, value in self.curvature.items()},
            stalled=self.stalled[members],
            settled=self.settled[members],
        )


@dataclass(frozen=True)
class LBFGS:
    """Minimize over all factors at once, by limited-memory quasi-Newton steps.

    With a strong penalty, block descent is slow and often ends in poorer optima, because no single
    factor can follow the others. Here all of them move together. A step costs about one evaluation
    of the objective with its gradients.

    The initial inverse Hessian of every step is that of a block-diagonal model; see
    `parafair.solvers.preconditioner`. It is scaled to the last change of the gradient. Steps obey
    the weak Wolfe conditions, so the objective never increases. If no step along the
    quasi-Newton direction decreases the objective, the member's differences are dropped and it
    takes a step along the preconditioned gradient. If that fails too, the member ends: `Status`
    says CONVERGED if the expected decrease is below rounding error, and otherwise STALLED.

    Scale is free to move between the factors. A penalty that depends on the scale could be made
    small that way, so only scale-free penalties are accepted.

    Attributes:
        memory: Number of earlier steps that determine the curvature.
    """

    memory: int = 10

    def __post_init__(self) -> None:
        whole_number("memory", self.memory)

    def init(self, problem: Problem, factors: tuple[Tensor, ...]) -> LBFGSState:
        """Move the scale into the sensitive mode, in the units of the data."""
        for bound in problem.bound_by_mode.values():
            if not isinstance(bound, BoundInvariant):
                raise ValueError(
                    "solver='lbfgs' needs a scale-free penalty such as method='invariant', got "
                    f"{problem.penalty!r}: scale would move between the factors and make it small; "
                    "use solver='block'"
                )
        begin = list(carry_scale(factors, problem.mode))
        block, factor = Sweep(problem, begin).block(problem.mode), begin[problem.mode]
        begin[problem.mode] = factor * block.best_multiple(factor)[:, None, None]
        point = evaluate(problem, flatten(begin))
        empty = point.vector[:, None][:, :0]
        zero = torch.zeros(len(factor), dtype=torch.long, device=factor.device)
        least = torch.finfo(factor.dtype).tiny ** 0.5
        return LBFGSState(
            point=point,
            steps=empty,
            changes=empty,
            evaluations=zero + 1,
            restarts=zero,
            # Moving one of n standardized rows by 1 changes the penalty by about this much.
            curvature={
                mode: point.objective.penalty.to(factor).clamp_min(least) / problem.shape[mode]
                for mode in problem.bound_by_mode
            },
            stalled=zero > 0,
            settled=zero > 0,
            shape=problem.shape,
            mode=problem.mode,
            weights=tuple(_row_weights(problem, mode) for mode in range(problem.order)),
        )

    def resume(self, problem: Problem, state: LBFGSState) -> LBFGSState:
        """Return the state of a problem that has changed a little; counts begin anew."""
        zero = torch.zeros_like(state.evaluations)
        return replace(
            state,
            point=evaluate(problem, state.point.vector),
            evaluations=zero + 1,
            restarts=zero,
            stalled=zero > 0,
            settled=zero > 0,
        )

    def step(self, problem: Problem, state: LBFGSState) -> LBFGSState:
        """Take one step; a second search follows for members that found none."""
        start = state.point
        factors = unflatten(start.vector, state.shape)
        parts = preconditioner(problem, factors, state.curvature, state.weights)
        found = search(
            lambda members, vectors: evaluate(_some(problem, members, len(start.vector)), vectors),
            start,
            -inverse_times(start.gradient, state.steps, state.changes, parts, state.shape),
        )
        state = replace(
            state,
            point=found.point,
            evaluations=state.evaluations + found.trials,
            stalled=~found.moved,
        )
        failed = state.stalled.nonzero().flatten()
        if len(failed):
            state = self._restart(problem, state, failed, parts)
        after = unflatten(state.point.vector, state.shape)
        curvature = {}
        for mode, value in state.curvature.items():
            step = after[mode] - factors[mode]
            change = state.point.slopes[mode] - start.slopes[mode]
            curvature[mode] = parts[mode].estimate(step, change, value)
        return self._remember(replace(state, curvature=curvature), start)

    def _restart(
        self, problem: Problem, state: LBFGSState, failed: Tensor, parts: tuple[Part, ...]
    ) -> LBFGSState:
        """Drop the differences of some members and search along the preconditioned gradient."""
        start, some = state.point.take(failed), problem.take(failed)
        gradients = unflatten(state.point.gradient, state.shape)
        solved = [part.solve(rows) for part, rows in zip(parts, gradients, strict=True)]
        direction = -flatten(solved)[failed]
        found = search(
            lambda members, vectors: evaluate(_some(some, members, len(failed)), vectors),
            start,
            direction,
        )
        # Components that cancel are larger than the data, and so is the rounding of their sum.
        products = product_of([gram(f) for f in unflatten(start.vector.double(), state.shape)])
        size = problem.norm_squared / problem.count + start.objective.value
        size = size + products.abs().sum((-2, -1)) / prod(problem.shape)
        rounding = ROUNDINGS * torch.finfo(direction.dtype).eps * size
        promised = -(direction * start.gradient).sum(-1, dtype=torch.float64)
        settled = ~found.moved & (promised >= 0) & (promised <= rounding)
        keep = torch.ones_like(state.stalled).index_fill(0, failed, False)[:, None, None]
        return replace(
            state,
            point=state.point.put(failed, found.point),
            steps=torch.where(keep, state.steps, 0.0),
            changes=torch.where(keep, state.changes, 0.0),
            evaluations=state.evaluations.index_add(0, failed, found.trials),
            restarts=state.restarts.index_add(0, failed, torch.ones_like(failed)),
            stalled=state.stalled.index_copy(0, failed, ~found.moved & ~settled),
            settled=state.settled.index_copy(0, failed, settled),
        )

    def _remember(self, state: LBFGSState, start: Point) -> LBFGSState:
        """Add the last step and the change of the gradient."""
        step = state.point.vector - start.vector
        change = state.point.gradient - start.gradient
        # The curvature must be positive beyond rounding.
        least = torch.finfo(step.dtype).eps * step.norm(dim=-1) * change.norm(dim=-1)
        curved = ((step * change).sum(-1) > least)[:, None]
        step, change = torch.where(curved, step, 0.0), torch.where(curved, change, 0.0)
        old = slice(max(0, state.steps.shape[1] + 1 - self.memory), None)
        return replace(
            state,
            steps=torch.cat([state.steps[:, old], step[:, None]], 1),
            changes=torch.cat([state.changes[:, old], change[:, None]], 1),
        )


def inverse_times(
    gradient: Tensor,
    steps: Tensor,
    changes: Tensor,
    parts: tuple[Part, ...],
    shape: tuple[int, ...],
) -> Tensor:
    """Return the quasi-Newton inverse Hessian times the gradient, shape (batch, N).

    This is the two-loop recursion. With ``S`` the steps, ``Y`` the changes of the gradient and
    ``R`` the upper triangle of ``S.T Y``, each loop is one triangular system.
    """

    def solve(vector: Tensor) -> Tensor:
        rows = zip(parts, unflatten(vector, shape), strict=True)
        return flatten([part.solve(factor) for part, factor in rows])

    if not steps.shape[1]:
        return solve(gradient)
    inner = (steps @ changes.mT).triu()
    diagonal = inner.diagonal(dim1=-2, dim2=-1)
    # Pairs that were dropped are zero: they must change nothing.
    dropped = diagonal <= 0
    inner = inner + torch.diag_embed(dropped.to(inner))
    first = torch.linalg.solve_triangular(inner, steps @ gradient.unsqueeze(-1), upper=True)
    left = solve(gradient - (changes.mT @ first).squeeze(-1))
    last = changes[:, -1]
    scale = (diagonal[:, -1] / (last * solve(last)).sum(-1)).where(~dropped[:, -1], 1.0)
    left = left * scale.unsqueeze(-1)
    right = (diagonal + dropped).unsqueeze(-1) * first - changes @ left.unsqueeze(-1)
    second = torch.linalg.solve_triangular(inner.mT, right, upper=False)
    found: Tensor = left + (steps.mT @ second).squeeze(-1)
    return found


def evaluate(problem: Problem, vector: Tensor) -> Point:
    """Return the objective and its gradient at factors given as one vector."""
    factors = unflatten(vector, problem.shape)
    value, gradients = problem.loss_and_gradients(factors)
    penalty, slopes = problem.penalty_and_gradients(factors)
    for mode, slope in slopes.items():
        gradients[mode] += slope
    return Point(vector, problem.objective(factors, value, penalty), flatten(gradients), slopes)


def flatten(factors: Factors) -> Tensor:
    """Return all factors as one vector per member, shape (batch, N)."""
    return torch.cat([factor.flatten(1) for factor in factors], 1)


def unflatten(vector: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the factors of vectors (batch, N), each (batch, size, rank)."""
    rank = vector.shape[1] // sum(shape)
    parts = vector.split([size * rank for size in shape], 1)
    return tuple(part.unflatten(1, (-1, rank)) for part in parts)


def _some(problem: Problem, members: Tensor, batch: int) -> Problem:
    return problem if len(members) == batch else problem.take(members)


def _row_weights(problem: Problem, mode: int) -> Tensor | None:
    """Return the entries of each row of a mode over their mean, shape (n, 1); None if all are 1.

    The ridge counts as further entries.
    """
    counts = problem.observations.counts(mode).double()
    more = problem.ridge * problem.shape[problem.mode] / problem.shape[mode]
    weights = ((counts + more) / counts.mean()).clamp_min(LEAST_WEIGHT)
    return None if bool((weights == 1).all()) else weights.to(problem.prototype).unsqueeze(-1)
