"""Solvers: how a problem is minimized."""

from parafair.solvers.block import BlockDescent
from parafair.solvers.gradient_bcd import GradientBCD
from parafair.solvers.loop import Solver, State, solve, solve_batch, solve_path
from parafair.solvers.path import decompose

__all__ = [
    "BlockDescent",
    "GradientBCD",
    "Solver",
    "State",
    "decompose",
    "solve",
    "solve_batch",
    "solve_path",
]
