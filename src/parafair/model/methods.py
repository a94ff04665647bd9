"""The methods by name, as in ``method="khsic"``: penalties, postprocessing and reductions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass

from parafair.arguments import real_number
from parafair.dependence.kernels import KERNELS
from parafair.encoders.base import Reduction
from parafair.encoders.registry import REDUCTIONS
from parafair.errors import unknown_choice
from parafair.penalties.base import Penalty, ScorePenalty
from parafair.penalties.postprocessing import Postprocessing
from parafair.penalties.registry import PENALTIES, POSTPROCESSING, SCORE_PENALTIES

METHODS = (*PENALTIES, *SCORE_PENALTIES, *POSTPROCESSING, *REDUCTIONS, "none")

Method = Penalty | ScorePenalty | Postprocessing | Reduction


def resolve_method(method: str | Method, strength: float | None = None) -> Method | None:
    """Return the method with a name, or the given object.

    Args:
        method: One of `METHODS`, or the object of a penalty, postprocessing or reduction.
        strength: The multiplier of a penalty given by name; None for the penalty's default.
    """
    if isinstance(method, Method) and not isinstance(method, type):
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
    penalties: dict[str, type[Penalty | ScorePenalty]] = {**PENALTIES, **SCORE_PENALTIES}
    if method in penalties:
        if strength is None:
            return penalties[method]()
        return penalties[method](strength=real_number("strength", strength, least=0))  # type: ignore[call-arg]
    if strength is not None:
        raise ValueError(
            f"strength={strength!r} was given, but method={method!r} has no penalty; leave "
            f"strength out, or choose one of {', '.join(penalties)}"
        )
    others: dict[str, type[Method]] = {**POSTPROCESSING, **REDUCTIONS}
    return others[method]() if method in others else None


def stored_classes(own: Iterable[type] = ()) -> dict[str, type]:
    """Return the classes that a stored method may use, by name.

    Args:
        own: Additional classes, from the caller.
    """
    families = (PENALTIES, SCORE_PENALTIES, POSTPROCESSING, REDUCTIONS)
    classes: list[type] = [kind for family in families for kind in family.values()]
    return {kind.__name__: kind for kind in (*classes, *KERNELS, *own)}
