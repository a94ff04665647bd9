"""Quasi-Newton steps on all factors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import gram, product_of
from parafair.algebra.tucker_tensor import Multilinear
from parafair.arguments import whole_number
from parafair.penalties import BoundInvariant
from parafair.solvers.block import carry_scale
from parafair.solvers.face import Face
from parafair.solvers.inner import USUAL, Inner, Shapes, sum_people
from parafair.solvers.non_negative import project
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed
from parafair.solvers.parameters import (
    flatten,
    parameter_of,
    parameter_shapes,
    to_factors,
    to_parameters,
    unflatten,
)
from parafair.solvers.preconditioner import RowWeights, preconditioner
from parafair.solvers.problem import Problem
from parafair.solvers.start import scale_down
from parafair.solvers.sweep import Sweep
from parafair.solvers.wolfe import Point, search

# A decrease below this many rounding errors cannot be told from none.
ROUNDINGS = 10

# Iterations after which the weights of a loss that is no squared error are computed again.
REFRESH = 5


@packed
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
        shapes: Shape of each parameter; see `parafair.solvers.parameters`.
        structure: That of the problem.
        mode: The mode that carries the scale in `factors`.
        weights: The share of each row in the curvature of the loss.
        age: Iterations since the weights were computed.
    """

    point: Point
    steps: Tensor
    changes: Tensor
    evaluations: Tensor
    restarts: Tensor
    curvature: Mapping[int, Tensor]
    stalled: Tensor
    settled: Tensor
    shapes: Shapes
    structure: Multilinear | None
    mode: int
    weights: RowWeights
    age: int = 0

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The factors; as in `BlockDescent`, the sensitive mode carries the scale."""
        parameters = unflatten(self.point.vector, self.shapes)
        return carry_scale(to_factors(parameters, self.structure), self.mode)

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
            weights=self.weights.take(members),
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
        factor = begin[problem.mode]
        if problem.is_squared:
            multiple = Sweep(problem, begin).best_multiple()
            begin[problem.mode] = factor * multiple[:, None, None]
        else:
            begin = list(scale_down(problem, begin))
        point = evaluate(problem, flatten(to_parameters(begin, problem.structure)))
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
                mode: point.objective.penalty.to(factor).clamp_min(least) / problem.sizes[mode]
                for mode in problem.bound_by_mode
            },
            stalled=zero > 0,
            settled=zero > 0,
            shapes=shapes_of(problem),
            structure=problem.structure,
            mode=problem.mode,
            weights=RowWeights.of(problem, begin),
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
        start, inner = state.point, Inner.of(problem)
        before = unflatten(start.vector, state.shapes)
        if not problem.is_squared and state.age >= REFRESH:
            now = to_factors(before, state.structure)
            state = replace(state, weights=RowWeights.of(problem, now), age=0)
        parts = preconditioner(problem, before, state.curvature, state.weights)
        face = Face.of(problem, start, state.shapes)
        pairs = face.pairs(state.steps, state.changes, inner)

        def solve(vector: Tensor) -> Tensor:
            rows = zip(parts, unflatten(vector, state.shapes), strict=True)
            return face.free(flatten([part.solve(factor) for part, factor in rows]))

        direction = -inverse_times(face.free(start.gradient), *pairs, solve, inner)
        found = search(
            lambda members, vectors: evaluate(_some(problem, members, len(start.vector)), vectors),
            start,
            face.towards(start.vector, direction),
            inner,
        )
        state = replace(
            state,
            point=found.point,
            evaluations=state.evaluations + found.trials,
            stalled=~found.moved,
        )
        failed = state.stalled.nonzero().flatten()
        if len(failed):
            direction = -solve(face.free(start.gradient))
            direction = face.surely_down(start.vector, direction, start.gradient)
            state = self._restart(problem, state, failed, direction[failed])
        after = unflatten(state.point.vector, state.shapes)
        curvature = {}
        for mode, value in state.curvature.items():
            place = parameter_of(mode, state.structure)
            step = after[place] - before[place]
            change = state.point.slopes[place] - start.slopes[place]
            curvature[mode] = parts[place].estimate(step, change, value)
        state = replace(state, curvature=curvature, age=state.age + 1)
        return self._remember(state, start, inner)

    def _restart(
        self, problem: Problem, state: LBFGSState, failed: Tensor, direction: Tensor
    ) -> LBFGSState:
        """Drop the differences of some members and search along the preconditioned gradient."""
        start, some, inner = state.point.take(failed), problem.take(failed), Inner.of(problem)
        found = search(
            lambda members, vectors: evaluate(_some(some, members, len(failed)), vectors),
            start,
            direction,
            inner,
        )
        # Components that cancel are larger than the data, and so is the rounding of their sum.
        parameters = unflatten(start.vector.double(), state.shapes)
        factors = enumerate(to_factors(parameters, state.structure))
        products = product_of([sum_people(problem, gram(f), mode) for mode, f in factors])
        size = problem.total / problem.count + start.objective.value
        if not problem.is_squared:
            size = size + abs(problem.deviance.saturated) / problem.count
        size = size + products.abs().sum((-2, -1)) / prod(problem.shape)
        rounding = ROUNDINGS * torch.finfo(direction.dtype).eps * size
        promised = -inner.dot(direction, start.gradient)
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

    def _remember(self, state: LBFGSState, start: Point, inner: Inner) -> LBFGSState:
        """Add the last step and the change of the gradient."""
        step = state.point.vector - start.vector
        change = state.point.gradient - start.gradient
        # The curvature must be positive beyond rounding.
        curved = inner.is_curved(step, change).unsqueeze(-1)
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
    solve: Callable[[Tensor], Tensor],
    inner: Inner = USUAL,
) -> Tensor:
    """Return the quasi-Newton inverse Hessian times the gradient, shape (batch, N).

    This is the two-loop recursion. With ``S`` the steps, ``Y`` the changes of the gradient and
    ``R`` the upper triangle of ``S.T Y``, each loop is one triangular system.

    Args:
        gradient: Shape (batch, N).
        steps: ``S``, shape (batch, pairs, N).
        changes: ``Y``, of the same shape.
        solve: Returns the initial inverse Hessian times a vector.
        inner: The inner product of vectors of parameters.
    """
    if not steps.shape[1]:
        return solve(gradient)
    upper, along = inner.several([(steps, changes), (steps, gradient.unsqueeze(-2))])
    upper = upper.triu()
    diagonal = upper.diagonal(dim1=-2, dim2=-1)
    # Pairs that were dropped are zero: they must change nothing.
    dropped = diagonal <= 0
    upper = upper + torch.diag_embed(dropped.to(upper))
    first = torch.linalg.solve_triangular(upper, along, upper=True)
    left = solve(gradient - (changes.mT @ first).squeeze(-1))
    last = changes[:, -1]
    curvature = inner.dot(last, solve(last), dtype=last.dtype)
    scale = (diagonal[:, -1] / curvature).where(~dropped[:, -1], 1.0)
    left = left * scale.unsqueeze(-1)
    along = inner.products(changes, left.unsqueeze(-2))
    right = (diagonal + dropped).unsqueeze(-1) * first - along
    second = torch.linalg.solve_triangular(upper.mT, right, upper=False)
    found: Tensor = left + (steps.mT @ second).squeeze(-1)
    return found


def evaluate(problem: Problem, vector: Tensor) -> Point:
    """Return the objective and its gradient at factors given as one vector, projected."""
    parameters = unflatten(vector, shapes_of(problem))
    if problem.non_negative:
        parameters = project(problem.non_negative, parameters)
        vector = flatten(parameters)
    objective, gradients, slopes = problem.value_and_gradients(parameters)
    return Point(vector, objective, flatten(gradients), slopes)


def shapes_of(problem: Problem) -> Shapes:
    """Return the shapes of the parameters of a problem."""
    return parameter_shapes(problem.data.shape, problem.rank, problem.structure)


def _some(problem: Problem, members: Tensor, batch: int) -> Problem:
    return problem if len(members) == batch else problem.take(members)
