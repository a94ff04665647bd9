"""KHSIC, the paper's penalty: dependence between a factor and the sensitive features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from parafair.arguments import real_number
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.gram import CenteredGram, differentiable_kernel_sum, kernel_sum
from parafair.dependence.kernels import Gaussian, Kernel, check_kernel


@dataclass(frozen=True)
class KHSIC:
    """``strength / n**2 * <HKH, HLH>`` for kernels of the factor's rows and of the features.

    The value depends on the scale of the factor: a kernel of fixed width cannot resolve rows that
    are all far apart or all close together. A small value does not prove fairness; use an audit.

    Attributes:
        strength: The paper's lambda, in the units of its formula.
        kernel: Kernel of the rows of the factor; its bandwidth must be a number.
        sensitive_kernel: Kernel of the sensitive features.
    """

    strength: float = 1.0
    kernel: Kernel = field(default_factory=Gaussian)
    sensitive_kernel: Kernel = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        real_number("strength", self.strength, least=0)
        for name in ("kernel", "sensitive_kernel"):
            check_kernel(name, getattr(self, name))
        if isinstance(getattr(self.kernel, "gamma", None), str):
            raise ValueError(
                "kernel must have a fixed gamma, got 'median': the bandwidth would change with "
                "the factor during the fit; pass gamma as a number"
            )

    def bind(self, sensitive: SensitiveFeatures, tensor: Tensor) -> BoundKernel:
        """Return the bound penalty."""
        encoded = sensitive.encode(prototype=tensor)
        weights = CenteredGram.of(encoded, self.sensitive_kernel)
        return BoundKernel(self.kernel, replace(weights, scale=weights.scale * self.strength))


@dataclass(frozen=True, eq=False)
class BoundKernel:
    """``sum_ij W_ij k(a_i, a_j)`` for the rows ``a`` of a factor."""

    kernel: Kernel
    weights: CenteredGram

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (...)."""
        return differentiable_kernel_sum(factor, self.kernel, self.weights)

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient from one pass over the pairs of rows."""
        return kernel_sum(factor, self.kernel, self.weights)
