"""The paper's network, which predicts the groups from the rows of the embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


@dataclass
class Networks:
    """Networks ``relu(x W1 + b) W2`` as one batch, with an explicit gradient.

    The gradient is several times faster than autograd.

    Attributes:
        first: ``W1``, shape (networks, columns, hidden).
        bias: ``b``, shape (networks, 1, hidden).
        second: ``W2`` transposed, shape (networks, outputs, hidden): products with few rows are
            several times as fast as those with few columns.
    """

    first: Tensor
    bias: Tensor
    second: Tensor

    @classmethod
    def draw(
        cls, inputs: int, hidden: int, outputs: int, generators: Sequence[torch.Generator]
    ) -> Self:
        """Return untrained weights, drawn like those of PyTorch's linear layers."""

        def uniform(fan_in: int, *shape: int) -> list[Tensor]:
            empty = [torch.empty(shape, dtype=torch.float32, device="cpu") for _ in generators]
            return [
                own.uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=generator)
                for own, generator in zip(empty, generators, strict=True)
            ]

        first, bias = uniform(inputs, inputs, hidden), uniform(inputs, 1, hidden)
        second = uniform(hidden, hidden, outputs)
        return cls(torch.stack(first), torch.stack(bias), torch.stack(second).mT.contiguous())

    @classmethod
    def train(
        cls,
        rows: Tensor,
        targets: Tensor,
        *,
        outputs: int,
        hidden: int,
        epochs: int,
        learning_rate: float,
        batch_size: int,
        randoms: Sequence[np.random.RandomState],
    ) -> Self:
        """Return networks trained by stochastic gradient descent with a fixed step.

        Args:
            rows: Inputs of each network in single precision, shape (networks, n, columns).
            targets: Codes of groups, shape (networks, n), or numbers, shape (networks, n, outputs).
            outputs: Number of groups, or of numbers per row.
            hidden: Width of the hidden layer.
            epochs: Passes over the rows.
            learning_rate: Step of the descent.
            batch_size: Rows per step.
            randoms: For each network, what draws the initial weights and the order of the rows.
        """
        _, n, columns = rows.shape
        seeds = [int(random.randint(2**31)) for random in randoms]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        networks = cls.draw(columns, hidden, outputs, generators)
        every = torch.arange(len(rows), device="cpu")[:, None]
        for _ in range(epochs):
            order = torch.from_numpy(np.stack([random.permutation(n) for random in randoms]))
            for batch in order.split(batch_size, dim=1):
                networks.descend(rows[every, batch], targets[every, batch], learning_rate)
        return networks

    def take(self, i: int) -> Self:
        """Return one of the networks, as a batch of its own."""
        return type(self)(*(part[i : i + 1].clone() for part in vars(self).values()))

    def scores(self, rows: Tensor) -> Tensor:
        """Return the outputs for every row, before any softmax, shape (networks, n, outputs)."""
        return torch.bmm(self.second, self._active(rows).mT).mT

    def descend(self, rows: Tensor, targets: Tensor, learning_rate: float) -> None:
        """Take one gradient step on the mean cross entropy, or on half the squared error.

        Args:
            rows: Inputs of each network, shape (networks, n, columns).
            targets: Codes, shape (networks, n), or numbers, shape (networks, n, outputs).
            learning_rate: The step.
        """
        active = self._active(rows)
        error = torch.bmm(self.second, active.mT)
        if targets.is_floating_point():
            error -= targets.mT
        else:
            error = torch.softmax(error, 1)
            error -= functional.one_hot(targets, error.shape[1]).mT
        error *= learning_rate / rows.shape[1]
        # The derivative of relu: the sign, because `active` is not negative.
        back = torch.bmm(error.mT, self.second).mul_(active.sign())
        self.second.baddbmm_(error, active, alpha=-1)
        self.first.baddbmm_(rows.mT, back, alpha=-1)
        self.bias.sub_(back.sum(1, keepdim=True))

    def _active(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, rows, self.first).relu_()
