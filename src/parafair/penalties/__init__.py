"""Penalties: what a factor must pay for depending on sensitive features."""

from __future__ import annotations

from parafair.errors import unknown_choice
from parafair.penalties.base import (
    AutogradTerm,
    InvariantTerm,
    Penalty,
    QuadraticTerm,
    Term,
    check_multiplier,
)
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC, KernelTerm
from parafair.penalties.orthogonality import Orthogonality

__all__ = [
    "HSIC",
    "KHSIC",
    "METHODS",
    "AutogradTerm",
    "Invariant",
    "InvariantTerm",
    "KernelTerm",
    "Orthogonality",
    "Penalty",
    "QuadraticTerm",
    "Term",
    "resolve_method",
]

# The shorthands of `method=`: each is a penalty with its default settings.
METHODS: dict[str, type[Invariant] | type[KHSIC] | type[HSIC] | type[Orthogonality] | None] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
    "none": None,
}


def resolve_method(method: str | Penalty, strength: float | None = None) -> Penalty | None:
    """Return the penalty a method's name stands for, or the penalty given.

    Args:
        method: A key of `METHODS`, or a penalty with settings of its own.
        strength: The multiplier for a method given by name, 1 if None.
    """
    if isinstance(method, Penalty) and not isinstance(method, type):
        if strength is not None:
            raise ValueError(
                f"strength={strength!r} was given, but the penalty {method!r} has its own; "
                "set it there and leave strength out"
            )
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_choice("method", method, METHODS)
    penalty, strength = METHODS[method], 1.0 if strength is None else strength
    check_multiplier("strength", strength)
    return None if penalty is None else penalty(strength=strength)
