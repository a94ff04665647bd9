"""Checks of a model's arguments that depend on each other, before its data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parafair.arguments import items, one_of, whole_number
from parafair.encoders.learned import Learned, resolve_encoder
from parafair.errors import unknown_choice
from parafair.model.methods import METHODS
from parafair.penalties import CalibratedPenalty, Penalty, ScorePenalty
from parafair.penalties.registry import PENALTIES
from parafair.solvers.init import MOST_STARTS

if TYPE_CHECKING:
    from parafair.model.estimator import FairCP

# What a selected fit must have: an audit that passes, or a certificate that suffices.
AUDIT, RELEASE, POPULATION = "audit", "release", "population"
GUARANTEES = (AUDIT, RELEASE, POPULATION)


def check_starts(n_init: object) -> None:
    """Raise unless it is a number of starts."""
    try:
        whole_number("n_init", n_init, most=MOST_STARTS)
    except ValueError as error:
        raise ValueError(f"{error}; or use 'auto'") from error


def check_guarantee(model: FairCP) -> tuple[str, ...]:
    """Return what a selected fit must have; the audit alone if nothing is given."""
    given = model.guarantee
    if given is None:
        return (AUDIT,)
    names = [given] if isinstance(given, str) else items("guarantee", given, "names")
    found = tuple(dict.fromkeys(one_of("guarantee", name, GUARANTEES) for name in names))
    if not found:
        raise ValueError(
            f"guarantee must name at least one of {', '.join(GUARANTEES)}, got {given!r}; use None "
            "for the audit alone"
        )
    if model.strength != "auto":
        raise ValueError(
            f"guarantee={given!r} is for strength='auto', but strength={model.strength!r}; use "
            "strength='auto', or leave guarantee out and use certify after the fit"
        )
    if POPULATION in found and RELEASE in found:
        raise ValueError(
            "guarantee cannot name both 'release' and 'population': people who share places do so "
            "with other training people, which says nothing of new ones; use one of them"
        )
    if model.noise == 0 and found != (AUDIT,):
        raise ValueError(
            f"guarantee={given!r} needs noise, but noise=0: nothing can be certified without; "
            "leave noise out"
        )
    return found


def check_encoder(model: FairCP, penalty: Penalty | ScorePenalty | None) -> Learned | None:
    """Return the settings of the encoder; None without one."""
    encoder = resolve_encoder(model.encoder)
    if encoder is not None and not isinstance(penalty, CalibratedPenalty):
        raise ValueError(
            f"encoder={model.encoder!r} is learned with the criterion of method='invariant', but "
            f"method={model.method!r}; use that method, or leave encoder out"
        )
    return encoder


def check_automatic(model: FairCP) -> None:
    """Raise unless the strength is "auto", and the method has one that can be selected."""
    if model.strength != "auto":
        raise ValueError(f"strength must be a number, 'auto' or None, got {model.strength!r}")
    penalty = PENALTIES.get(model.method) if isinstance(model.method, str) else model.method
    if isinstance(model.method, str) and model.method not in METHODS:
        raise unknown_choice("method", model.method, METHODS)
    # A class has the same methods as its instances.
    if penalty is None or not isinstance(penalty, CalibratedPenalty):
        able = [name for name, kind in PENALTIES.items() if isinstance(kind, CalibratedPenalty)]
        raise ValueError(
            f"strength='auto' needs a penalty with a `criterion`, such as method="
            f"{' or '.join(map(repr, able))}; got method={model.method!r}. Use such a method, or "
            "the default strength=None"
        )
