"""HSIC with linear kernels: correlation between a factor and the sensitive features."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from parafair.algebra.quadratic import QuadraticForm
from parafair.arguments import real_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties.bound import BoundQuadratic


@dataclass(frozen=True)
class HSIC:
    """``strength / n**2 * ||A~.T S~||**2`` with column-centered ``A~`` and ``S~``.

    Attributes:
        strength: The paper's lambda, in the units of its formula.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundQuadratic:
        """Return the bound penalty."""
        encoded = sensitive.encode(prototype=tensor)
        # Centering one side is enough: A~.T S~ = A.T H H S = A.T S~.
        centered = encoded - encoded.mean(0)
        columns = centered * (self.strength**0.5 / len(encoded))
        return BoundQuadratic(QuadraticForm.from_columns(columns))
