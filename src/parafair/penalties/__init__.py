"""Penalties: what a factor must pay for depending on sensitive features."""

from __future__ import annotations

from parafair.penalties.base import (
    AutogradTerm,
    InvariantTerm,
    Penalty,
    QuadraticTerm,
    Term,
    restrict,
    weigh,
)
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC, KernelTerm
from parafair.penalties.orthogonality import Orthogonality

__all__ = [
    "HSIC",
    "KHSIC",
    "AutogradTerm",
    "Invariant",
    "InvariantTerm",
    "KernelTerm",
    "Orthogonality",
    "Penalty",
    "QuadraticTerm",
    "Term",
    "restrict",
    "weigh",
]
