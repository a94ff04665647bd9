"""The solvers that `solver=` can name."""

from __future__ import annotations

from typing import Any

from parafair.errors import unknown_choice
from parafair.solvers.block import BlockDescent
from parafair.solvers.gradient_bcd import GradientBCD
from parafair.solvers.loop import Solver

# To add a solver, add it here under the name that users give.
SOLVERS: dict[str, Solver[Any]] = {"block": BlockDescent(), "gradient": GradientBCD()}


def resolve_solver(solver: str | Solver[Any]) -> Solver[Any]:
    """Return the solver of a name, or the object given."""
    if isinstance(solver, Solver) and not isinstance(solver, type):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise unknown_choice("solver", solver, SOLVERS)
    return SOLVERS[solver]


def stored_classes() -> dict[str, type]:
    """Return the classes that a stored solver may be, by name."""
    return {type(solver).__name__: type(solver) for solver in SOLVERS.values()}
