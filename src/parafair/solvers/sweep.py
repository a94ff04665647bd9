"""One pass over the modes of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import (
    Block,
    MultilinearBlock,
    NonNegativeBlock,
    squared_block,
)
from parafair.algebra.row_grams import add_grams
from parafair.solvers.ridge import ridge_diagonal
from parafair.solvers.tangent import tangent_block

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


class Sweep:
    """One pass over the modes, with the loss as a function of each block.

    Args:
        problem: The problem.
        factors: Each (batch, size, rank).
        damping: For a loss that is not monotone, multiples of its weights, shape (batch,).
    """

    def __init__(self, problem: Problem, factors: Factors, damping: Tensor | None = None) -> None:
        self.problem = problem
        self.factors = list(factors)
        self.damping = damping
        self._sums = problem.observations.sums(factors) if problem.is_squared else None
        # The error of the side information near the rows for which the last block was made.
        self._side: Block | None = None

    def block(self, mode: int) -> Block:
        """Return loss and ridge as a function of the factor of `mode`, with the others fixed.

        If the loss is no squared error, these are weighted squares that touch it. With side
        information, the block of the people has its error for the factor that fits it best now.
        """
        problem = self.problem
        ridge = ridge_diagonal(self.factors, mode, problem.mode, problem.ridge)
        if self._sums is None:
            free = tangent_block(
                problem.deviance, self.factors, mode, ridge=ridge, damping=self.damping
            )
        else:
            target, gram = self._sums.target(mode), self._sums.gram(mode)
            norm_squared, table = problem.norm_squared, problem.table
            if table is not None and mode == problem.mode:
                rows = self.factors[mode]
                more, own = table.sums(rows, table.factor(rows))
                target, gram = target + more.to(target), add_grams(gram, own)
                norm_squared += table.norm_squared
                self._side = squared_block(
                    more, own, norm_squared=table.norm_squared, entries=problem.count, ridge=None
                )
            free = squared_block(
                target, gram, norm_squared=norm_squared, entries=problem.count, ridge=ridge
            )
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
        value = block.value(self.factors[mode])
        if self._side is None or mode != self.problem.mode:
            return value
        return (value - self._side.value(self.factors[mode])).clamp_min(0)

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
