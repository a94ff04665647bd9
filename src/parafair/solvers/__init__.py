"""The optimization problem, its solvers and their result."""

from parafair.solvers.block import BlockDescent
from parafair.solvers.decomposition import repair
from parafair.solvers.fitting import decompose, decompose_from
from parafair.solvers.gradient_bcd import GradientBCD
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.loop import Solver, State, solve_batch
from parafair.solvers.plain import decompose_plain
from parafair.solvers.problem import Problem
from parafair.solvers.result import Fit, Status, Stop

__all__ = [
    "LBFGS",
    "BlockDescent",
    "Fit",
    "GradientBCD",
    "Problem",
    "Solver",
    "State",
    "Status",
    "Stop",
    "decompose",
    "decompose_from",
    "decompose_plain",
    "repair",
    "solve_batch",
]
