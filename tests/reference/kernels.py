"""Kernels by their definition, with automatic derivatives: what a user's own kernel looks like."""

from dataclasses import dataclass

from parafair.dependence.kernels import Kernel


@dataclass(frozen=True)
class Linear(Kernel):
    """The kernel ``x . y``: HSIC with it is squared covariance."""

    def __call__(self, first, second):
        return first @ second.mT


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """The kernel ``1 / (1 + gamma * ||x - y||**2)``."""

    gamma: float = 1.0

    def __call__(self, first, second):
        squares = (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(-1)
        return 1 / (1 + self.gamma * squares)
