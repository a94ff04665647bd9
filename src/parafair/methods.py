"""Methods by name: the penalties and adjustments that `method=` stands for."""

from __future__ import annotations

from collections.abc import Callable

from parafair.adjustments import Adjustment, CorrelationRemoval, MomentMatching
from parafair.errors import unknown_choice
from parafair.penalties import HSIC, KHSIC, Invariant, Orthogonality, Penalty
from parafair.penalties.base import check_multiplier

PENALTIES: dict[str, Callable[..., Penalty]] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
}
ADJUSTMENTS: dict[str, Callable[[], Adjustment]] = {
    "correlation-removal": CorrelationRemoval,
    "moment-matching": MomentMatching,
}
METHODS = (*PENALTIES, *ADJUSTMENTS, "none")


def resolve_method(
    method: str | Penalty | Adjustment, strength: float | None = None
) -> Penalty | Adjustment | None:
    """Return what a method's name stands for, or the object given.

    Args:
        method: One of `METHODS`, or a penalty or adjustment with settings of its own.
        strength: The multiplier of a penalty given by name; None is the penalty's default.
    """
    if isinstance(method, (Penalty, Adjustment)) and not isinstance(method, type):
        if strength is not None:
            raise ValueError(
                f"strength={strength!r} was given, but {method!r} has its own settings; set it "
                "there and leave strength out"
            )
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_choice("method", method, METHODS)
    if strength is not None:
        check_multiplier("strength", strength)
    if method in PENALTIES:
        return PENALTIES[method]() if strength is None else PENALTIES[method](strength=strength)
    return ADJUSTMENTS[method]() if method in ADJUSTMENTS else None
