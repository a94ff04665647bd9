"""A custom kernel, with automatic derivatives."""

from dataclasses import dataclass

from parafair.dependence.kernels import Kernel


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """The kernel ``1 / (1 + gamma * ||x - y||**2)``."""

    gamma: float = 1.0

    def __call__(self, first, second):
        squares = (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(-1)
        return 1 / (1 + self.gamma * squares)
