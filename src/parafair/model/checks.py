"""Checks of a model's arguments that depend on each other, before its data is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from parafair.algebra.least_squares.constrained import GRADIENT_STEPS
from parafair.arguments import items, one_of, whole_number
from parafair.data.modes import number_of_mode
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import Reduction
from parafair.encoders.learned import Learned, resolve_encoder
from parafair.errors import shown, unknown_choice
from parafair.losses import Loss, is_squared, needs_non_negative, resolve_loss
from parafair.model.methods import METHODS, Method
from parafair.penalties import (
    CalibratedPenalty,
    Penalty,
    Postprocessing,
    ScorePenalty,
    Transport,
)
from parafair.penalties.registry import PENALTIES
from parafair.solvers import LBFGS, GradientBCD
from parafair.solvers.init import MOST_STARTS

if TYPE_CHECKING:
    from parafair.model.fair_model import FairModel

# What a selected fit must have: an audit that passes, or a certificate that suffices.
AUDIT, RELEASE, POPULATION = "audit", "release", "population"
GUARANTEES = (AUDIT, RELEASE, POPULATION)


def check_reusable(model: FairModel) -> None:
    """Raise if an argument of the model can be read only once, as a generator."""
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Iterator):
            raise TypeError(
                f"{name} must be the same each time it is read, got {shown(value)}; pass a list"
            )


def check_starts(n_init: object) -> None:
    """Raise unless it is a number of starts."""
    try:
        whole_number("n_init", n_init, most=MOST_STARTS)
    except ValueError as error:
        raise ValueError(f"{error}; or use 'auto'") from error


def check_guarantee(model: FairModel) -> tuple[str, ...]:
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


def check_encoder(model: FairModel, penalty: Penalty | ScorePenalty | None) -> Learned | None:
    """Return the settings of the encoder; None without one."""
    encoder = resolve_encoder(model.encoder)
    if encoder is not None and not isinstance(penalty, CalibratedPenalty):
        raise ValueError(
            f"encoder={model.encoder!r} is learned with the criterion of method='invariant', but "
            f"method={model.method!r}; use that method, or leave encoder out"
        )
    return encoder


def check_non_negative(model: FairModel, method: Method | None, solver: object, loss: Loss) -> None:
    """Raise unless the modes with non-negative factors are modes, and all else allows them."""
    given = model.non_negative
    # As a message names what asks for non-negative factors.
    name = f"non_negative={given!r}"
    if needs_non_negative(loss):
        if not isinstance(given, (bool, np.bool_)):
            raise ValueError(
                f"loss={loss.name!r} has non-negative factors in all modes, but {name}; leave "
                "non_negative out"
            )
        given, name = True, f"loss={loss.name!r}"
        if model.structured:
            raise ValueError(
                f"{name} has non-negative factors, but those of a FairTucker have both signs; use "
                "FairCP, or another loss"
            )
    if isinstance(given, (bool, np.bool_)):
        wanted = bool(given)
    else:
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ValueError(
                "non_negative must be True, False, or modes such as (0,) or ('people',), got "
                f"{shown(given)}"
            )
        for mode in given:
            if isinstance(mode, bool) or not isinstance(mode, (str, Integral)):
                raise ValueError(
                    f"each mode of non_negative must be a number or a name, got {shown(mode)}; "
                    "pass modes such as (0,) or ('people',)"
                )
        wanted = len(given) > 0
    if (wanted or model.structured) and isinstance(solver, GradientBCD):
        raise ValueError(GRADIENT_STEPS)
    if not wanted:
        return
    if isinstance(method, ScorePenalty) and not isinstance(solver, LBFGS):
        raise ValueError(
            f"{name} with method={model.method!r}, which is about predicted scores, needs "
            f"solver='lbfgs', got {model.solver!r}; leave solver out"
        )
    changed = isinstance(method, (Postprocessing, Reduction)) and not isinstance(method, Transport)
    if changed or model.encoder is not None:
        other = f"method={model.method!r}" if changed else f"encoder={model.encoder!r}"
        raise ValueError(
            f"{name} cannot be used with {other}, whose rows have both signs; use "
            "a penalty such as method='invariant', or method='transport' or 'none'"
        )
    if given is True and model.center and (is_squared(loss) or needs_non_negative(loss)):
        other = "name the modes that are to be non-negative"
        if needs_non_negative(loss):
            other = "use a loss with a link, such as loss='poisson'"
        raise ValueError(
            f"{name} cannot be used with center=True: entries minus offsets have both signs; leave "
            f"center out, or {other}"
        )


def find_non_negative(model: FairModel, loss: Loss, data: TensorData) -> tuple[int, ...]:
    """Return the modes with non-negative factors."""
    given = model.non_negative or needs_non_negative(loss)
    if isinstance(given, (bool, np.bool_)):
        return tuple(range(data.order)) if given else ()
    named = "each mode of non_negative"
    return tuple(sorted({number_of_mode(named, mode, data.modes) for mode in given}))


def check_loss(model: FairModel, method: object, solver: object) -> Loss:
    """Return the loss; raise if something else in the model is for squared errors alone."""
    loss = resolve_loss(model.loss)
    if is_squared(loss):
        return loss
    only = ""
    if model.encoder is not None:
        only = f"encoder={model.encoder!r}"
    elif isinstance(method, Reduction):
        only = f"method={model.method!r}"
    elif isinstance(solver, GradientBCD):
        only = f"solver={model.solver!r}"
    if only:
        raise ValueError(
            f"{only} is defined by squared errors, but loss={loss.name!r}; use loss='squared', or "
            f"leave {only.partition('=')[0]} at its default"
        )
    return loss


def check_automatic(model: FairModel) -> None:
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
            "leave strength out"
        )
