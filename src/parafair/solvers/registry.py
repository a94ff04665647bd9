"""The solvers by name, as in ``solver="block"``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from parafair.errors import unknown_choice
from parafair.penalties.base import moves_scale
from parafair.solvers.block import BlockDescent
from parafair.solvers.gradient_bcd import GradientBCD
from parafair.solvers.lbfgs import LBFGS
from parafair.solvers.loop import Solver

# To add a solver, add it here under its public name.
SOLVERS: dict[str, Solver[Any]] = {
    "block": BlockDescent(),
    "lbfgs": LBFGS(),
    "gradient": GradientBCD(),
}


def resolve_solver(
    solver: str | Solver[Any], penalty: object = None, *, structured: bool = False
) -> Solver[Any]:
    """Return the solver with a name, or the given object.

    Args:
        solver: One of `SOLVERS`, "auto" or a solver object.
        penalty: The penalty of the problem, by which "auto" chooses: all factors at once for
            scale-free penalties and for those on predicted scores, one after the other for all
            others.
        structured: Whether a factor has a structure; then "auto" is all factors at once.
    """
    if isinstance(solver, Solver) and not isinstance(solver, type):
        if isinstance(solver, GradientBCD):
            solver.check(penalty)
        return solver
    if isinstance(solver, str) and solver == "auto":
        return SOLVERS["lbfgs" if structured or moves_scale(penalty) else "block"]
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise unknown_choice("solver", solver, ("auto", *SOLVERS))
    return resolve_solver(SOLVERS[solver], penalty)


def stored_classes(own: Iterable[type] = ()) -> dict[str, type]:
    """Return the classes that a stored solver may have, by name.

    Args:
        own: Additional classes.
    """
    classes: list[type] = [*(type(solver) for solver in SOLVERS.values()), *own]
    return {kind.__name__: kind for kind in classes}
