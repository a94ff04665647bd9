"""Methods by name: the penalties and adjustments that `method=` stands for."""

from __future__ import annotations

from collections.abc import Callable

from parafair.errors import unknown_choice
from parafair.penalties import HSIC, KHSIC, Invariant, Orthogonality, Penalty
from parafair.penalties.base import check_multiplier
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching, Postprocessing

PENALTIES: dict[str, Callable[..., Penalty]] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
}
POSTPROCESSING: dict[str, Callable[[], Postprocessing]] = {
    "correlation-removal": CorrelationRemoval,
    "moment-matching": MomentMatching,
}
METHODS = (*PENALTIES, *POSTPROCESSING, "none")


def resolve_method(
    method: str | Penalty | Postprocessing, strength: float | None = None
) -> Penalty | Postprocessing | None:
    """Return what a method's name stands for, or the object given.

    Args:
        method: One of `METHODS`, or a penalty or postprocessing with settings of its own.
        strength: The multiplier of a penalty given by name; None is the penalty's default.
    """
    if isinstance(method, (Penalty, Postprocessing)) and not isinstance(method, type):
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
    return POSTPROCESSING[method]() if method in POSTPROCESSING else None
