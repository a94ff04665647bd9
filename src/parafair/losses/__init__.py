"""Losses: how far a model is from an entry, one file each."""

from __future__ import annotations

from parafair.losses.base import Loss
from parafair.losses.bernoulli import Bernoulli
from parafair.losses.bernoulli_poisson import BernoulliPoisson
from parafair.losses.binomial import Binomial
from parafair.losses.deviance import deviances, null_deviance
from parafair.losses.gamma import Gamma
from parafair.losses.huber import Huber
from parafair.losses.negative_binomial import NegativeBinomial
from parafair.losses.poisson import Poisson
from parafair.losses.poisson_identity import PoissonIdentity
from parafair.losses.registry import (
    LOSSES,
    has_link,
    is_squared,
    needs_non_negative,
    resolve_loss,
)
from parafair.losses.squared import Squared

__all__ = [
    "LOSSES",
    "Bernoulli",
    "BernoulliPoisson",
    "Binomial",
    "Gamma",
    "Huber",
    "Loss",
    "NegativeBinomial",
    "Poisson",
    "PoissonIdentity",
    "Squared",
    "deviances",
    "has_link",
    "is_squared",
    "needs_non_negative",
    "null_deviance",
    "resolve_loss",
]
