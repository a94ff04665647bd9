"""FATR's penalty: orthogonality of a factor to the sensitive features."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import real_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.bound import BoundQuadratic


@dataclass(frozen=True)
class Orthogonality:
    """``strength * ||A.T S||**2 + ridge * ||A||**2``, with ``S`` not centered, as published.

    Zhu, Hu and Caverlee, "Fairness-aware tensor-based recommendation", 2018. Theorem 1 of the
    paper shows that a classifier may predict the groups even if the value is zero. Because
    ``S`` is not centered, swapping the codes of two groups changes the penalty.

    Attributes:
        strength: The paper's a_o.
        ridge: The paper's a_l2.
    """

    strength: float = 1.0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)
        real_number("ridge", self.ridge, least=0)

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundQuadratic:
        """Return the bound penalty."""
        encoded = sensitive.encode(prototype=tensor)
        columns = encoded * self.strength**0.5
        return BoundQuadratic(QuadraticForm.from_columns(columns, self.ridge))
