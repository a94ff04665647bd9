"""Steps of Adam (Kingma and Ba, 2015).

The class ``torch.optim.Adam`` imports PyTorch's compiler, which takes more than a second. Its
function does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam


class Adam:
    """Changes parameters in place, by the same steps as ``torch.optim.Adam``.

    Args:
        parameters: The parameters.
        betas: Decay of the mean of gradients, and of their squares.
        fused: Whether all parameters change in one operation.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        fused: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        self.betas = betas
        self.fused = fused
        self._means = [torch.zeros_like(each) for each in self.parameters]
        self._squares = [torch.zeros_like(each) for each in self.parameters]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=each.device if fused else "cpu")
            for each in self.parameters
        ]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take one step.

        Args:
            gradients: The gradient in each parameter.
            rate: The learning rate.
        """
        adam(
            self.parameters,
            list(gradients),
            self._means,
            self._squares,
            [],
            self._steps,
            fused=self.fused,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
