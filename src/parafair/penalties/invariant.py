"""The default penalty: dependence that cannot be lowered by changing units."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.criterion import Criterion, Standardized
from parafair.penalties.base import check_multiplier
from parafair.sensitive import SensitiveFeatures


@dataclass(frozen=True)
class Invariant:
    """``strength * mean(X**2) * criterion(A, S)``; see `parafair.criterion.Criterion`.

    The criterion is 0 without dependence and 1 if the factor is the sensitive features, in any
    units of ``A``; the mean square makes it comparable with the squared residual, in any units of
    ``X``. So `strength` means the same on any data. Where groups differ in all they do, as in the
    paper's synthetic data, 20 to 100 is needed; weaker dependence takes less.

    Attributes:
        strength: Multiplier, relative to the squared norm of the data.
        exact: Whether to look at all pairs of people; None: up to 1000 (20 000 on a GPU), beyond
            which Fourier features make it linear.
    """

    strength: float = 1.0
    exact: bool | None = None

    def __post_init__(self) -> None:
        check_multiplier("strength", self.strength)

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> CriterionTerm:
        """Return the term for these people."""
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        scale = self.strength * norm**2 / tensor.numel()
        return CriterionTerm(Criterion(sensitive, tensor.flatten()[:0], self.exact), scale)


@dataclass(frozen=True, eq=False)
class CriterionTerm:
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
