"""The default penalty: dependence that cannot be lowered by changing units."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Literal

import torch
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion, Standardized
from parafair.dependence.pairwise import CHUNK_PEOPLE, chunk_count
from parafair.penalties.base import check_multiplier

SMALLEST_CHUNK = 50


@dataclass(frozen=True)
class Invariant:
    """``strength * mean(X**2) * criterion(A, S)``; see `parafair.dependence.criterion.Criterion`.

    The criterion is 0 without dependence and 1 if the factor is the sensitive features, in any
    units of ``A``; the mean square makes it comparable with the squared residual, in any units of
    ``X``. So `strength` means the same on any data. Where groups differ in all they do, as in the
    paper's synthetic data, 20 to 100 is needed; weaker dependence takes less.

    Attributes:
        strength: Multiplier, relative to the squared norm of the data.
        block: About how many people all pairs are looked at of; more are dealt into blocks, each
            with its share of every group, and larger ones if a group is rare.
    """

    # What solvers and the search for a strength may rely on.
    scale_free: ClassVar[Literal[True]] = True
    path: ClassVar[tuple[float, ...]] = (0.1, 0.3)

    strength: float = 1.0
    block: int = CHUNK_PEOPLE

    def __post_init__(self) -> None:
        check_multiplier("strength", self.strength)
        if not isinstance(self.block, Integral) or self.block < SMALLEST_CHUNK:
            raise ValueError(
                f"block must be a whole number of at least {SMALLEST_CHUNK} people, got "
                f"{self.block!r}: in a smaller one chance hides everything"
            )

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundCriterion:
        """Return the term for these people."""
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        scale = self.strength * norm**2 / tensor.numel()
        return BoundCriterion(self.criterion(sensitive, tensor), scale)

    def criterion(self, sensitive: SensitiveFeatures, like: Tensor) -> Criterion:
        """Return the criterion for these people, computed where a tensor is.

        It has the tensor's precision, but single precision if people are in blocks: rows without
        units have the size 1, so on any data its error is about 1e-8, far below the 1e-3 that
        chance leaves in a block, and it takes half the time.
        """
        like = like.flatten()[:0]
        if chunk_count(sensitive, self.block) > 1:
            like = like.float()
        return Criterion(sensitive, like, self.block)


@dataclass(frozen=True, eq=False)
class BoundCriterion:
    """A multiple of the invariant criterion."""

    criterion: Criterion
    scale: float

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.value_and_gradient(factor)[0]

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient."""
        value, gradient = self.criterion.value_and_gradient(factor)
        return self.scale * value, self.scale * gradient

    def basis(self, factor: Tensor) -> Tensor:
        """Return the way from whitened rows to the factor, shape (..., rank, rank)."""
        return Standardized.of(factor).basis.to(factor.dtype)
