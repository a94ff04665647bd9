"""The methods by name, as in ``method="khsic"``: penalties and postprocessing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass

from parafair.arguments import real_number
from parafair.dependence.kernels import KERNELS
from parafair.errors import unknown_choice
from parafair.penalties.base import Penalty
from parafair.penalties.hsic import HSIC
from parafair.penalties.invariant import Invariant
from parafair.penalties.khsic import KHSIC
from parafair.penalties.orthogonality import Orthogonality
from parafair.penalties.postprocessing import CorrelationRemoval, MomentMatching, Postprocessing
from parafair.penalties.transport import Transport

# To add a method, add its class here under its public name.
PENALTIES: dict[str, type[Penalty]] = {
    "invariant": Invariant,
    "khsic": KHSIC,
    "hsic": HSIC,
    "fatr": Orthogonality,
}
POSTPROCESSING: dict[str, type[Postprocessing]] = {
    "correlation-removal": CorrelationRemoval,
    "moment-matching": MomentMatching,
    "transport": Transport,
}
METHODS = (*PENALTIES, *POSTPROCESSING, "none")


def resolve_method(
    method: str | Penalty | Postprocessing, strength: float | None = None
) -> Penalty | Postprocessing | None:
    """Return the method with a name, or the given object.

    Args:
        method: One of `METHODS`, or a penalty or postprocessing object.
        strength: The multiplier of a penalty given by name; None for the penalty's default.
    """
    if isinstance(method, (Penalty, Postprocessing)) and not isinstance(method, type):
        if strength is not None:
            raise ValueError(
                f"strength={strength!r} was given, but {method!r} has its own settings; set it "
                "there and leave strength out"
            )
        if not is_dataclass(method):
            raise TypeError(
                f"method must be a dataclass, so that it can be stored and its strength replaced; "
                f"got {method!r}. Add @dataclass(frozen=True) to its class"
            )
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_choice("method", method, METHODS)
    if method in PENALTIES:
        if strength is None:
            return PENALTIES[method]()
        return PENALTIES[method](strength=real_number("strength", strength, least=0))  # type: ignore[call-arg]
    if strength is not None:
        raise ValueError(
            f"strength={strength!r} was given, but method={method!r} has no penalty; leave "
            f"strength out, or choose one of {', '.join(PENALTIES)}"
        )
    return POSTPROCESSING[method]() if method in POSTPROCESSING else None


def stored_classes(own: Iterable[type] = ()) -> dict[str, type]:
    """Return the classes that a stored method may use, by name.

    Args:
        own: Additional classes, from the caller.
    """
    classes: list[type] = [*PENALTIES.values(), *POSTPROCESSING.values(), *KERNELS, *own]
    return {kind.__name__: kind for kind in classes}
