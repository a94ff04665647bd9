"""Encoders: maps from a person's entries to a row that never use the group."""

from __future__ import annotations

from parafair.encoders.base import (
    CompleteEncoder,
    ComposableEncoder,
    CountedReduction,
    Encoder,
    Reduction,
)
from parafair.encoders.fair_pca import FairPCA, FairPCACovariance
from parafair.encoders.kernel import KernelEncoder
from parafair.encoders.leace import LEACE
from parafair.encoders.learned import Learned, LearnedEncoder
from parafair.encoders.linear import LinearEncoder
from parafair.encoders.perez_suay import KernelPerezSuay, PerezSuay
from parafair.encoders.result import EncodedFit

__all__ = [
    "LEACE",
    "CompleteEncoder",
    "ComposableEncoder",
    "CountedReduction",
    "EncodedFit",
    "Encoder",
    "FairPCA",
    "FairPCACovariance",
    "KernelEncoder",
    "KernelPerezSuay",
    "Learned",
    "LearnedEncoder",
    "LinearEncoder",
    "PerezSuay",
    "Reduction",
]
