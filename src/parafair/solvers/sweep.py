"""One pass over the modes of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import (
    Block,
    MultilinearBlock,
    NonNegativeBlock,
    Squares,
)
from parafair.solvers.ridge import ridge_diagonal
from parafair.solvers.tangent import tangent_squares

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


class Sweep:
    """One pass over the modes, with the loss as a function of each block.

    Args:
        problem: The problem.
        factors: Each (batch, size, rank).
        damping: For losses that are not monotone, multiples of their weights, shape (batch,).
    """

    def __init__(self, problem: Problem, factors: Factors, damping: Tensor | None = None) -> None:
        self.problem = problem
        self.factors = list(factors)
        self.damping = damping
        self._sums = problem.observations.sums(factors) if problem.is_squared else None
        # The last block of the people, without side information.
        self._alone: Block | None = None

    def block(self, mode: int) -> Block:
        """Return loss and ridge as a function of the factor of `mode`, with the others fixed.

        If the loss is no squared error, these are weighted squares that touch it. With side
        information, the block of the people has its error for the factor that fits it best now.
        """
        problem, people = self.problem, mode == self.problem.mode
        ridge = ridge_diagonal(self.factors, mode, problem.mode, problem.ridge, problem.team)
        if self._sums is None:
            squares = tangent_squares(problem.deviance, self.factors, mode, self.damping)
        else:
            norm_squared = problem.own_norm_squared if people else problem.norm_squared
            squares = Squares(self._sums.target(mode), self._sums.gram(mode), norm_squared)
        if problem.table is not None and people:
            self._alone = squares.block(entries=problem.count, ridge=ridge)
            squares = squares.plus(problem.table.near(self.factors[mode], self.damping))
        free = squares.block(entries=problem.count, ridge=ridge, team=problem.teams[mode])
        if mode in self.problem.non_negative:
            return NonNegativeBlock.of(free)
        if self.problem.structure is not None and mode != self.problem.mode:
            return MultilinearBlock.of(free, self.problem.structure)
        return free

    def value(self, block: Block, mode: int) -> Tensor:
        """Return loss and ridge of the current factors, in double precision, shape (batch,).

        The error of the side information is not part of it.

        Args:
            block: The block of the factor that was replaced last.
            mode: Its mode.
        """
        if self._sums is None:
            return self.problem.loss_of(self.factors)
        if mode != self.problem.mode:
            return block.value(self.factors[mode])
        own = block if self._alone is None else self._alone
        return self.problem.team.sum(own.value(self.factors[mode]))

    def best_multiple(self) -> Tensor:
        """Return the multiple of the model with the smallest loss and ridge, shape (batch,)."""
        people = self.problem.mode
        # The block of another mode has the sums over the people of all processes.
        mode = people if self.problem.team.is_alone else int(people == 0)
        return self.block(mode).best_multiple(self.factors[mode])

    def refit_others(self, passes: int) -> None:
        """Fit all factors but that of the people, one after the other."""
        for _ in range(passes):
            for mode in range(self.problem.order):
                if mode != self.problem.mode:
                    self.replace(mode, self.block(mode).improve(self.factors[mode]))

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        self.factors[mode] = factor
        if self._sums is not None:
            self._sums.replace(mode, factor)
