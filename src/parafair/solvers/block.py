"""Block updates with extrapolation, exact where possible."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parafair.algebra.least_squares import Block, NonNegativeBlock
from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import flag, whole_number
from parafair.penalties import BlockMeans, BoundInvariant, BoundPenalty, BoundQuadratic
from parafair.solvers.majorize import Iterate, majorize
from parafair.solvers.non_negative import project
from parafair.solvers.objective import Objective
from parafair.solvers.packing import packed
from parafair.solvers.problem import Problem
from parafair.solvers.start import scale_down
from parafair.solvers.sweep import Sweep
from parafair.team import ALONE, Team

# The penalty is never assumed flatter than this share of the loss's curvature.
LEAST_CURVATURE = 1e-6

# If the objective rises with a loss whose weights do not bound it, they are multiplied by this, at
# most so often.
CAUTION, MOST_CAUTION = 4.0, 12


@packed
@dataclass(frozen=True, eq=False)
class BlockState:
    """State of block descent.

    Attributes:
        factors: The best factors so far; columns of all modes except the sensitive one have root
            mean square 1.
        objective: The objective at `factors`.
        ahead: The extrapolated factors, from which the next iteration starts.
        momentum: Nesterov's sequence, shape (batch,).
        curvature: Curvature assumed for the penalty of each mode, shape (batch, modes); adapted.
        restarts: Iterations whose extrapolation was rejected, shape (batch,).
        stalls: Majorize-minimize steps without descent, shape (batch,).
        damping: Multiples of the weights of a loss that is not monotone, shape (batch,); adapted.
    """

    factors: tuple[Tensor, ...]
    objective: Objective
    ahead: tuple[Tensor, ...]
    momentum: Tensor
    curvature: Tensor
    restarts: Tensor
    stalls: Tensor
    damping: Tensor

    @property
    def counts(self) -> dict[str, Tensor]:
        """Iterations with rejected extrapolation, and steps without descent."""
        return {"restarts": self.restarts, "stalls": self.stalls}

    def take(self, members: Tensor) -> BlockState:
        """Return the state of some members."""
        return BlockState(
            tuple(factor[members] for factor in self.factors),
            self.objective.take(members),
            tuple(factor[members] for factor in self.ahead),
            self.momentum[members],
            self.curvature[members],
            self.restarts[members],
            self.stalls[members],
            self.damping[members],
        )

    def put(self, members: Tensor, other: BlockState) -> BlockState:
        """Return this state with some members replaced by those of another."""

        def mix(old: Tensor, new: Tensor) -> Tensor:
            return old.index_copy(0, members, new)

        return BlockState(
            tuple(map(mix, self.factors, other.factors)),
            self.objective.put(members, other.objective),
            tuple(map(mix, self.ahead, other.ahead)),
            mix(self.momentum, other.momentum),
            mix(self.curvature, other.curvature),
            mix(self.restarts, other.restarts),
            mix(self.stalls, other.stalls),
            mix(self.damping, other.damping),
        )


@dataclass(frozen=True)
class BlockDescent:
    """Minimize over one factor at a time, extrapolate, and restart if the objective rises.

    In a CP tensor, scale can move from one factor to another without a change to the model. A
    penalty that depends on the scale could be made small that way. So the sensitive mode carries
    the scale: the columns of all other factors have root mean square 1, and the sensitive factor
    has the units of the data.

    * Without a penalty, every block is solved exactly by least squares (ALS). A non-negative one
      takes passes over its columns (HALS), and what is extrapolated is projected.
    * The sensitive block with a quadratic penalty is solved exactly too.
    * With any other penalty it takes majorize-minimize steps: the penalty is replaced by its
      tangent plus a multiple of the squared distance, the sum with the loss is minimized
      exactly, and the multiple is adapted until the objective decreases.
    * With a penalty, the columns of the other factors are minimized one by one at fixed norm.
    * A penalty on predicted scores is part of every block, in the same way: exact if quadratic.
      It does not depend on the scale, so columns are not held at fixed norm.
    * A loss that is no squared error is replaced by weighted squares that touch it. Some such
      squares do not bound the loss; their weights are raised until the objective decreases.

    The objective never increases.

    Attributes:
        extrapolate: Whether to extrapolate, which escapes the swamps of plain ALS.
        inner_steps: Majorize-minimize steps, and passes over the columns, per iteration.
    """

    extrapolate: bool = True
    inner_steps: int = 2

    def __post_init__(self) -> None:
        flag("extrapolate", self.extrapolate)
        whole_number("inner_steps", self.inner_steps)

    def check(self, problem: Problem) -> None:
        """Raise if a factor has a structure and penalties on its bases: it has one block."""
        if problem.structure is not None and problem.other_sensitive:
            raise ValueError(
                "solver='block' supports one sensitive mode of a Tucker decomposition, but "
                "sensitive_features has several; use solver='lbfgs', the default"
            )

    def init(self, problem: Problem, factors: tuple[Tensor, ...]) -> BlockState:
        """Move the scale into the sensitive mode and fit that factor to the others."""
        self.check(problem)
        if not problem.is_squared:
            factors = scale_down(problem, factors)
        sweep = Sweep(problem, carry_scale(factors, problem.mode))
        block, factor = sweep.block(problem.mode), sweep.factors[problem.mode]
        # Random factors do not have the units of the data; one multiple corrects that. With a
        # ridge, least squares is well-posed for any other factors, and a better start.
        if not problem.is_squared:
            pass
        elif problem.ridge:
            factor = block.minimizer(QuadraticForm.zero(factor))
        else:
            factor = factor * sweep.best_multiple()[:, None, None]
        sweep.replace(problem.mode, factor)
        ones = factor.new_ones(len(factor))
        zero = torch.zeros_like(ones, dtype=torch.long)
        begin = tuple(sweep.factors)
        objective = problem.evaluate(begin)
        if isinstance(problem.bound, BoundInvariant):
            # Shifting one of n standardized rows by 1 changes the penalty by about this much.
            sizes = ones.new_tensor(problem.shape)
            curvature = objective.penalty[:, None].to(ones) / sizes
        else:
            # The penalty's curvature is unknown; the loss's curvature is the first guess.
            curvature = block.curvature(QuadraticForm.zero(sweep.factors[problem.mode]))
            curvature = curvature[:, None].repeat(1, problem.order)
        state = BlockState(begin, objective, begin, ones, curvature, zero, zero, ones)
        if not problem.is_squared:
            return state
        state = self._finish(problem, sweep, block, state)
        return replace(state, ahead=state.factors)

    def step(self, problem: Problem, state: BlockState) -> BlockState:
        """Sweep from the extrapolated factors, or from the best ones if the objective rose."""
        new = self._sweep(problem, state, state.ahead)
        if not self.extrapolate:
            new = self._with_caution(problem, state, new) if problem.cautious else new
            return replace(new, ahead=new.factors)
        descent = new.objective.value <= state.objective.value
        failed = (~descent).nonzero().flatten()
        if len(failed):
            before = state.take(failed)
            before = replace(
                before, restarts=before.restarts + 1, momentum=torch.ones_like(before.momentum)
            )
            plain = self._sweep(problem.take(failed), before, before.factors)
            if problem.cautious:
                plain = self._with_caution(problem.take(failed), before, plain)
            # Exact updates never increase the objective except by rounding: keep the best factors.
            stuck = (plain.objective.value > before.objective.value).nonzero().flatten()
            new = new.put(failed, plain.put(stuck, before.take(stuck)))
        momentum = (1 + (1 + 4 * new.momentum**2).sqrt()) / 2
        weight = ((new.momentum - 1) / momentum)[:, None, None]
        pairs = zip(new.factors, state.factors, strict=True)
        ahead = [factor + weight * (factor - before) for factor, before in pairs]
        return replace(
            new,
            ahead=project(problem.non_negative, ahead),
            momentum=momentum,
            damping=(new.damping / 2).clamp_min(1),
        )

    def _with_caution(self, problem: Problem, before: BlockState, after: BlockState) -> BlockState:
        """Repeat sweeps that increased the objective, with larger weights of the loss.

        Args:
            problem: The problem.
            before: The state before the sweeps.
            after: The state after them.
        """
        for _ in range(MOST_CAUTION):
            # A comparison with NaN is false.
            risen = (~(after.objective.value <= before.objective.value)).nonzero().flatten()
            if not len(risen):
                return after
            damping = before.damping.index_copy(0, risen, CAUTION * before.damping[risen])
            before = replace(before, damping=damping)
            some = before.take(risen)
            after = after.put(risen, self._sweep(problem.take(risen), some, some.factors))
        stuck = (~torch.isfinite(after.objective.value)).nonzero().flatten()
        return after.put(stuck, before.take(stuck))

    def _sweep(self, problem: Problem, state: BlockState, begin: tuple[Tensor, ...]) -> BlockState:
        """Update every factor once, the sensitive one last."""
        bound = problem.bound
        free = problem.is_squared and not problem.constrained and problem.scores is None
        exact = bound is None and free
        if exact:
            # Exact updates do not depend on the scale; unit columns are better conditioned.
            begin = tuple(map(unit_columns, begin, problem.teams))
        sweep = Sweep(problem, begin, state.damping)
        for mode in range(problem.order):
            if mode == problem.mode:
                continue
            block, factor = sweep.block(mode), sweep.factors[mode]
            if mode in problem.bound_by_mode:
                own = problem.bound_by_mode[mode]
                factor, _, state = self._majorize(own, block, mode, factor, state, ALONE)
                sweep.replace(mode, factor)
                continue
            if problem.scores is not None:
                factor, _, state = self._match_scores(problem, sweep, block, mode, state)
            elif exact:
                solved = block.minimizer(QuadraticForm.zero(factor))
                factor, scale = unit_columns(solved), _column_scale(solved).squeeze(-2)
            elif bound is None or isinstance(bound, BoundInvariant):
                factor = block.improve(factor)
            else:
                factor = unit_columns(factor)
                for _ in range(self.inner_steps):
                    factor = block.minimize_columns(factor)
            sweep.replace(mode, factor)
        if exact and problem.table is not None:
            # The error of side information near the rows does depend on their scale.
            sweep.replace(problem.mode, sweep.factors[problem.mode] * scale.unsqueeze(-2))
        if not exact and (bound is None or isinstance(bound, BoundInvariant)):
            # Nothing here depends on the scale, so it moves once per sweep.
            begin = carry_scale(tuple(sweep.factors), problem.mode)
            sweep = Sweep(problem, begin, state.damping)
        return self._finish(problem, sweep, sweep.block(problem.mode), state)

    def _finish(
        self, problem: Problem, sweep: Sweep, block: Block, state: BlockState
    ) -> BlockState:
        """Update the sensitive factor and evaluate the objective from its block."""
        bound, factor = problem.bound, sweep.factors[problem.mode]
        penalty = None
        if problem.scores is not None:
            factor, penalty, state = self._match_scores(problem, sweep, block, problem.mode, state)
        elif bound is None and (isinstance(block, NonNegativeBlock) or not problem.is_squared):
            factor = block.improve(factor)
        elif bound is None:
            factor = block.minimizer(QuadraticForm.zero(factor))
        elif isinstance(bound, BoundQuadratic) and not isinstance(block, NonNegativeBlock):
            factor = block.minimizer(bound.form)
            penalty = bound.value(factor)
        else:
            factor, penalty, state = self._majorize(
                bound, block, problem.mode, factor, state, problem.team
            )
        sweep.replace(problem.mode, factor)
        factors = tuple(sweep.factors)
        if penalty is not None and problem.other_sensitive:
            others = [
                problem.bound_by_mode[mode].value(factors[mode]) for mode in problem.other_sensitive
            ]
            penalty = penalty + torch.stack(others).sum(0)
        objective = problem.objective(factors, sweep.value(block, problem.mode), penalty)
        return replace(state, factors=factors, objective=objective)

    def _match_scores(
        self, problem: Problem, sweep: Sweep, block: Block, mode: int, state: BlockState
    ) -> tuple[Tensor, Tensor, BlockState]:
        """Update a factor with a penalty on predicted scores; returns are as in `_majorize`."""
        assert problem.scores is not None
        bound, factor = problem.scores.block(sweep.factors, mode), sweep.factors[mode]
        if not isinstance(bound, BlockMeans):
            return self._majorize(bound, block, mode, factor, state, ALONE)
        factor = bound.minimizer(block, factor)
        return factor, bound.value(factor), state

    def _majorize(
        self,
        bound: BoundPenalty,
        block: Block,
        mode: int,
        factor: Tensor,
        state: BlockState,
        team: Team,
    ) -> tuple[Tensor, Tensor, BlockState]:
        """Take majorize-minimize steps on a factor with a penalty.

        Returns:
            The factor, its penalty, and the state with the adapted curvature.
        """
        curvature, stalls = state.curvature[:, mode], state.stalls
        point = Iterate(factor, *bound.value_and_gradient(factor))
        least = curvature.new_tensor(torch.finfo(factor.dtype).tiny ** 0.5)
        if not isinstance(bound, BoundInvariant):
            least = block.curvature(QuadraticForm.zero(factor)) * LEAST_CURVATURE
        for _ in range(self.inner_steps):
            point, curvature, accepted = majorize(block, bound, point, curvature, team)
            stalls = stalls + ~accepted
            curvature = torch.where(accepted, curvature / 2, curvature).clamp_min(least)
        column = torch.full((1,), mode, dtype=torch.long, device=curvature.device)
        adapted = state.curvature.index_copy(1, column, curvature[:, None])
        return point.factor, point.value, replace(state, curvature=adapted, stalls=stalls)


def unit_columns(factor: Tensor, team: Team = ALONE) -> Tensor:
    """Return the factor with columns of root mean square 1; zero columns stay zero.

    Args:
        factor: The factor.
        team: All processes that have some of its rows.
    """
    return factor / _column_scale(factor, team)


def carry_scale(factors: tuple[Tensor, ...], mode: int) -> tuple[Tensor, ...]:
    """Return the same model with unit columns in all modes but `mode`, which carries the scale."""
    units, carrier = [], factors[mode]
    for factor in factors:
        units.append(unit_columns(factor))
        carrier = carrier * _column_scale(factor)
    units[mode] = carrier / _column_scale(factors[mode])
    return tuple(units)


def _column_scale(factor: Tensor, team: Team = ALONE) -> Tensor:
    scale = team.mean(factor.square())[0].sqrt()
    return torch.where(scale > 0, scale, torch.ones_like(scale))
