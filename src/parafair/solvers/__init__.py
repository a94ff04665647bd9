"""Solvers: how a problem is minimized."""

from parafair.solvers.base import Solver, State, solve, solve_batch, solve_path
from parafair.solvers.block import BlockDescent
from parafair.solvers.decompose import decompose
from parafair.solvers.gradient_bcd import GradientBCD

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
