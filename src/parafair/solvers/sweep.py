"""One pass over the modes of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.least_squares import LOSSES, Block, MultilinearBlock, NonNegativeBlock
from parafair.solvers.ridge import ridge_diagonal

if TYPE_CHECKING:
    from parafair.solvers.problem import Problem


class Sweep:
    """One pass over the modes, with the loss as a function of each block."""

    def __init__(self, problem: Problem, factors: Factors) -> None:
        self.problem = problem
        self.factors = list(factors)
        self._sums = problem.observations.sums(factors)

    def block(self, mode: int) -> Block:
        """Return loss and ridge as a function of the factor of `mode`, with the others fixed."""
        free = LOSSES[self.problem.loss](
            self._sums.target(mode),
            self._sums.gram(mode),
            norm_squared=self.problem.norm_squared,
            entries=self.problem.count,
            ridge=ridge_diagonal(self.factors, mode, self.problem.mode, self.problem.ridge),
        )
        if mode in self.problem.non_negative:
            return NonNegativeBlock.of(free)
        if self.problem.structure is not None and mode != self.problem.mode:
            return MultilinearBlock.of(free, self.problem.structure)
        return free

    def refit_others(self, passes: int) -> None:
        """Fit all factors but that of the people, one after the other."""
        for _ in range(passes):
            for mode in range(self.problem.order):
                if mode != self.problem.mode:
                    self.replace(mode, self.block(mode).improve(self.factors[mode]))

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        self.factors[mode] = factor
        self._sums.replace(mode, factor)
