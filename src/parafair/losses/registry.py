"""The losses by name, as in ``loss="poisson"``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch

from parafair.errors import unknown_choice
from parafair.losses.base import Loss
from parafair.losses.bernoulli import Bernoulli
from parafair.losses.bernoulli_poisson import BernoulliPoisson
from parafair.losses.binomial import Binomial
from parafair.losses.gamma import Gamma
from parafair.losses.huber import Huber
from parafair.losses.negative_binomial import NegativeBinomial
from parafair.losses.poisson import Poisson
from parafair.losses.poisson_identity import PoissonIdentity
from parafair.losses.squared import Squared
from parafair.records import describe, rebuild

# Where it is seen whether a loss has a link; values that losses of non-negative factors take too.
MODELS = (0.0, 0.5, 1.0, 3.0)

# To add a loss, add it here under its public name.
LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Squared(),
        Huber(),
        Bernoulli(),
        BernoulliPoisson(),
        Binomial(),
        NegativeBinomial(),
        Poisson(),
        PoissonIdentity(),
        Gamma(),
    )
}


def resolve_loss(loss: Any, *, name: str = "loss") -> Loss:
    """Return the loss with a name, or the given object.

    Args:
        loss: One of `LOSSES`, or the object of a loss.
        name: What the argument is called.
    """
    if isinstance(loss, Loss) and not isinstance(loss, type):
        if not is_dataclass(loss):
            raise TypeError(
                f"{name} must be a dataclass, so that it can be stored; got {loss!r}. Add "
                "@dataclass(frozen=True) to its class"
            )
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise unknown_choice(name, loss, LOSSES)
    return LOSSES[loss]


def is_squared(loss: Loss) -> bool:
    """Tell whether a loss is the squared error, for which blocks are exact."""
    return isinstance(loss, Squared)


def needs_non_negative(loss: Loss) -> bool:
    """Tell whether a loss is one of non-negative factors."""
    return bool(getattr(loss, "non_negative", False))


def has_link(loss: Loss) -> bool:
    """Tell whether the expected entries are something else than the model itself.

    It follows from the loss's `mean`, so that losses of your own need not say it.
    """
    model = torch.tensor(MODELS, dtype=torch.float64, device="cpu")
    return not torch.equal(loss.mean(model), model)


def stored_loss(loss: Loss) -> str | dict[str, Any]:
    """Return a loss as a file has it: its name, or its class and settings."""
    return loss.name if LOSSES.get(loss.name) == loss else describe(loss)


def read_loss(stored: Any, *, classes: Iterable[type] = ()) -> Loss:
    """Return the loss from the result of `stored_loss`.

    Args:
        stored: A name, or a description.
        classes: Additional classes that it may have.
    """
    known = stored_classes(classes)
    return resolve_loss(rebuild(stored, known) if isinstance(stored, Mapping) else stored)


def stored_classes(own: Iterable[type] = ()) -> dict[str, type]:
    """Return the classes that a stored loss may have, by name.

    Args:
        own: Additional classes, from the caller.
    """
    return {kind.__name__: kind for kind in (*(type(loss) for loss in LOSSES.values()), *own)}
