"""Algorithm 1 of the paper: many gradient steps on one factor, then on the next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.algebra.least_squares import Block
from parafair.algebra.least_squares.constrained import GRADIENT_STEPS
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import flag, items, real_number, whole_number
from parafair.dependence.gram import WHOLE_BYTES, tile_size
from parafair.errors import shown
from parafair.penalties import BoundPenalty, BoundQuadratic, ScorePenalty
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.sweep import Sweep


@packed
@dataclass(frozen=True, eq=False)
class GradientState:
    """State of Algorithm 1."""

    factors: tuple[Tensor, ...]
    objective: Objective
    blocks: Tensor
    capped: Tensor

    @property
    def counts(self) -> dict[str, Tensor]:
        """Number of block updates, and of those with a shortened step."""
        return {"blocks": self.blocks, "capped": self.capped}

    def take(self, members: Tensor) -> GradientState:
        """Return the state of some members."""
        return GradientState(
            tuple(factor[members] for factor in self.factors),
            self.objective.take(members),
            self.blocks[members],
            self.capped[members],
        )


@dataclass(frozen=True)
class GradientBCD:
    """Block coordinate descent by gradient steps on the paper's objective.

    The scale of the factors is free, as in the paper. A step larger than one over the
    Lipschitz constant of its block (exact for the loss and a quadratic penalty) is shortened to
    that, and the fit counts how often.

    If a block is quadratic, all its steps are computed at once in closed form. The result equals
    that of single steps up to rounding.

    Attributes:
        step_sizes: Step size for the sensitive mode, and for all other modes.
        inner_steps: Gradient steps on each factor per iteration.
        cap: Whether to shorten steps that are too large.
    """

    step_sizes: tuple[float, float] = (0.5, 1.0)
    inner_steps: int = 200
    cap: bool = True

    def __post_init__(self) -> None:
        sizes = items("step_sizes", self.step_sizes, "two numbers")
        if len(sizes) != 2:
            raise ValueError(
                "step_sizes must be two positive numbers, for the sensitive mode and for the "
                f"others; got {shown(self.step_sizes)}"
            )
        for size in sizes:
            real_number("each of step_sizes", size, above=0)
        whole_number("inner_steps", self.inner_steps)
        flag("cap", self.cap)

    @staticmethod
    def check(penalty: object) -> None:
        """Raise if a penalty is not a function of one factor."""
        if isinstance(penalty, ScorePenalty):
            raise ValueError(
                "solver='gradient' is for penalties on one factor, got the penalty on predicted "
                f"scores {penalty!r}; use solver='auto'"
            )

    def init(self, problem: Problem, factors: tuple[Tensor, ...]) -> GradientState:
        """Start at the given factors, unchanged."""
        self.check(problem.penalty)
        if problem.constrained:
            raise ValueError(GRADIENT_STEPS)
        if problem.side is not None:
            raise ValueError(
                "solver='gradient' is the paper's algorithm, which has no side information; use "
                "solver='auto', or leave side out"
            )
        zero = torch.zeros(len(factors[0]), dtype=torch.long, device=factors[0].device)
        return GradientState(factors, problem.evaluate(factors), zero, zero)

    def step(self, problem: Problem, state: GradientState) -> GradientState:
        """Take the inner steps on every factor, in the order of the modes."""
        sweep, capped = Sweep(problem, state.factors), state.capped
        for mode in range(problem.order):
            bound = problem.bound_by_mode.get(mode)
            block, factor = sweep.block(mode), sweep.factors[mode]
            form = bound.form if isinstance(bound, BoundQuadratic) else QuadraticForm.zero(factor)
            printed = self.step_sizes[0] if mode == problem.mode else self.step_sizes[1]
            step = factor.new_full((len(factor),), printed)
            if self.cap:
                limit = 1 / block.curvature(form).clamp_min(torch.finfo(step.dtype).tiny)
                capped = capped + (limit < step)
                step = torch.minimum(step, limit)
            if bound is None or isinstance(bound, BoundQuadratic):
                factor = block.descend(factor, form, step=step, count=self.inner_steps)
            else:
                factor = self._descend_in_parts(problem, mode, block, factor, step)
            sweep.replace(mode, factor)
        # The last block gives the loss without reading the tensor again.
        factors, value = tuple(sweep.factors), block.value(factor)
        objective = problem.objective(factors, value, problem.penalty_of(factors))
        return GradientState(factors, objective, state.blocks + problem.order, capped)

    def _descend_in_parts(
        self, problem: Problem, mode: int, block: Block, factor: Tensor, step: Tensor
    ) -> Tensor:
        """Take the inner steps for a few members at a time, so that kernels fit into the cache."""
        few = max(1, (tile_size(factor[0], WHOLE_BYTES) // factor.shape[-2]) ** 2)
        parts = torch.arange(len(factor), device=factor.device).split(few)
        if len(parts) == 1:
            return self._descend(block, problem.bound_by_mode[mode], factor, step)
        done = []
        for part in parts:
            bound = problem.take(part).bound_by_mode[mode]
            done.append(self._descend(block.take(part), bound, factor[part], step[part]))
        return torch.cat(done)

    def _descend(self, block: Block, bound: BoundPenalty, factor: Tensor, step: Tensor) -> Tensor:
        """Take the inner steps one by one, without reading the tensor."""
        step, shape = step[:, None, None], factor.shape
        affine = block.affine_step(step)
        if len(factor) == 1:
            factor, step = factor[0], step[0]
        for _ in range(self.inner_steps):
            slope = bound.value_and_gradient(factor)[1]
            factor = affine(factor).addcmul_(slope, step, value=-1)
        return factor.reshape(shape)
