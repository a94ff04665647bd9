"""Encoders that a stored model may have, and the methods that compute one, by name."""

from __future__ import annotations

from parafair.encoders.base import Encoder, Reduction
from parafair.encoders.fair_pca import FairPCA, FairPCACovariance
from parafair.encoders.inputs import PositionEncoder
from parafair.encoders.kernel import KernelEncoder
from parafair.encoders.leace import LEACE
from parafair.encoders.learned import LearnedEncoder
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.perez_suay import KernelPerezSuay, PerezSuay

# To add an encoder, add its class here, so that models with it can be loaded.
ENCODERS: tuple[type[Encoder], ...] = (
    LinearEncoder,
    KernelEncoder,
    LearnedEncoder,
    PositionEncoder,
)

# To add a method, add its class here under its public name.
REDUCTIONS: dict[str, type[Reduction]] = {
    "fair-pca": FairPCA,
    "fair-pca-covariance": FairPCACovariance,
    "leace": LEACE,
    "perez-suay": PerezSuay,
    "kernel-perez-suay": KernelPerezSuay,
}
