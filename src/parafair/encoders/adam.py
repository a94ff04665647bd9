"""Adam, the optimizer of learned encoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Averaging of the gradient and of its square.
BETAS = (0.9, 0.99)
# Added to the root of the mean square.
EPSILON = 1e-8


class Adam:
    """Adam: Kingma and Ba, "Adam: a method for stochastic optimization", 2015, Algorithm 1.

    The one in `torch.optim` imports torch's compiler, which takes longer than many fits.

    Args:
        parameters: The tensors to change.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = tuple(parameters)
        self.means = [torch.zeros_like(each) for each in self.parameters]
        self.squares = [torch.zeros_like(each) for each in self.parameters]
        self.count = 0

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Change the parameters.

        Args:
            gradients: The gradient of each of them.
            rate: The learning rate.
        """
        self.count += 1
        first, second = (1 - beta**self.count for beta in BETAS)
        with torch.no_grad():
            for each, mean, square, gradient in zip(
                self.parameters, self.means, self.squares, gradients, strict=True
            ):
                mean.lerp_(gradient, 1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
                each.addcdiv_(mean, (square / second).sqrt_().add_(EPSILON), value=-rate / first)
