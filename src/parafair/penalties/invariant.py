"""The default penalty: dependence that does not change with the units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from parafair.arguments import flag, real_number, whole_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.chunks import CHUNK_PEOPLE, chunk_count
from parafair.dependence.criterion import Criterion
from parafair.dependence.whitening import Standardized
from parafair.team import Team

# In smaller chunks, random differences between groups are larger than dependence.
SMALLEST_CHUNK = 50


@dataclass(frozen=True)
class Invariant:
    """``strength * mean(X**2) * criterion(A, S)``; see `parafair.dependence.criterion.Criterion`.

    The criterion is 0 without dependence and 1 if the factor equals the sensitive features, in any
    units of ``A``. The mean square makes it comparable with the squared residual, in any units of
    ``X``. So `strength` means the same on any data. The minimum of the criterion is at chance, so a
    strength that is too large costs residual but creates no dependence; the default is large.

    Attributes:
        strength: Multiplier, relative to the squared norm of the data.
        chunk_size: Chunk size for pairwise sums. More people are split into chunks, each with its
            share of every group; chunks are larger if a group is rare.
        rotation_free: Whether the criterion is that of whole whitened rows alone, which does not
            change when columns are mixed; `FairTucker` uses it.
    """

    # Declared for the protocols in `parafair.penalties.base`.
    scale_free: ClassVar[Literal[True]] = True
    # About the finest bandwidth of the criterion.
    default_noise: ClassVar[float] = 0.1

    strength: float = 300.0
    chunk_size: int = CHUNK_PEOPLE
    rotation_free: bool = False

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)
        flag("rotation_free", self.rotation_free)
        # In smaller chunks, random differences hide dependence.
        whole_number("chunk_size", self.chunk_size, least=SMALLEST_CHUNK)

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundCriterion:
        """Return the bound penalty."""
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        scale = self.strength * norm**2 / tensor.numel()
        return BoundCriterion(self.criterion(sensitive, tensor), scale)

    def criterion(self, sensitive: SensitiveFeatures, prototype: Tensor) -> Criterion:
        """Return the criterion of these sensitive features.

        It uses the dtype and device of the prototype. Several chunks use single precision, which
        takes half the time. Standardized rows are of size 1, so the error is about 1e-8 on any
        data, far below the random differences within a chunk, about 1e-3.
        """
        prototype = prototype.flatten()[:0]
        if chunk_count(sensitive, self.chunk_size) > 1:
            prototype = prototype.float()
        return Criterion(sensitive, prototype, self.chunk_size, rotation_free=self.rotation_free)


@dataclass(frozen=True, eq=False)
class BoundCriterion:
    """A multiple of the invariant criterion."""

    criterion: Criterion
    scale: float

    @property
    def in_chunks(self) -> bool:
        """Whether people are compared in several chunks."""
        return len(self.criterion.chunks) > 1

    def with_deal(self, deal: int) -> BoundCriterion:
        """Return the penalty with chunks of other people."""
        return replace(self, criterion=self.criterion.with_deal(deal))

    @property
    def parts(self) -> Tensor:
        """The part of each person; a process has all people of a part."""
        return self.criterion.parts

    def of_people(self, own: Tensor, team: Team) -> BoundCriterion:
        """Return the penalty of a process that has the rows of some people."""
        return replace(self, criterion=self.criterion.of_people(own, team))

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return self.value_and_gradient(factor)[0]

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient."""
        value, gradient = self.criterion.value_and_gradient(factor)
        return self.scale * value, self.scale * gradient

    def basis(self, factor: Tensor) -> Tensor:
        """Return the map from whitened rows to the factor, shape (..., rank, rank)."""
        return Standardized.of(factor, self.criterion.team).basis.to(factor.dtype)
