"""Networks with two hidden layers as one batch, the members of the tuned network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional


@dataclass
class Members:
    """Networks of equal widths, with an explicit gradient that reuses its memory.

    A person is a column: products with few rows are several times as fast as those with few
    columns. New memory at each step would take as long as the products.

    Attributes:
        layers: Weights and biases in turn, shapes (members, out, in) and (members, out, 1).
    """

    layers: list[Tensor]

    @classmethod
    def draw(cls, members: int, widths: tuple[int, ...], generator: torch.Generator) -> Self:
        """Return untrained networks; `widths` are those of the inputs, two layers, the outputs."""
        layers = []
        for inputs, outputs in pairwise(widths):
            shape = (members, inputs, outputs)
            drawn = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
            weights = drawn.mT.contiguous() * (2 / inputs) ** 0.5
            layers += [weights, weights.new_zeros(members, outputs, 1)]
        layers[-2] *= 0.1  # the first outputs are near zero
        return cls(layers)

    @classmethod
    def join(cls, parts: Sequence[Members]) -> Self:
        """Return the members of all parts as one batch."""
        return cls([torch.cat(part) for part in zip(*(p.layers for p in parts), strict=True)])

    def __len__(self) -> int:
        return len(self.layers[0])

    def take(self, chosen: slice) -> Members:
        """Return a view of some members."""
        return Members([layer[chosen] for layer in self.layers])

    def copy(self) -> Members:
        """Return the same members in memory of their own."""
        return Members([layer.clone() for layer in self.layers])

    def outputs(self, rows: Tensor) -> Tensor:
        """Return the outputs of every member, shape (members, outputs, n).

        Args:
            rows: Inputs of each member, shape (members, n, columns).
        """
        values = rows.mT
        for weights, bias in zip(self.layers[:-2:2], self.layers[1:-2:2], strict=True):
            values = torch.baddbmm(bias, weights, values).relu_()
        return torch.baddbmm(self.layers[-1], self.layers[-2], values)

    def losses(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy, or the mean squared error, of each member.

        Args:
            rows: Inputs of each member, shape (members, n, columns).
            targets: Codes of groups, shape (members, n), or numbers, shape (members, n, 1).
        """
        outputs = self.outputs(rows)
        if targets.is_floating_point():
            return (outputs - targets.mT).square().mean((1, 2))
        return functional.cross_entropy(outputs, targets, reduction="none").mean(1)

    def space(self, n: int) -> list[Tensor]:
        """Return memory for `gradients` on n rows per member."""
        hidden = self.layers[0].shape[1]
        return [self.layers[0].new_empty(len(self), hidden, n) for _ in range(3)]

    def gradients(self, rows: Tensor, targets: Tensor, space: list[Tensor]) -> list[Tensor]:
        """Return the gradient of the sum of `losses` in each of the layers.

        Args:
            rows: Inputs of each member, shape (members, n, columns).
            targets: As for `losses`.
            space: What `space` returned; it is overwritten.
        """
        (w1, b1, w2, b2, w3, b3), (first, second, back) = self.layers, space
        torch.baddbmm(b1, w1, rows.mT, out=first).relu_()
        torch.baddbmm(b2, w2, first, out=second).relu_()
        error = torch.baddbmm(b3, w3, second)
        if targets.is_floating_point():
            error = 2 * (error - targets.mT)
        else:
            error = error.softmax(1) - functional.one_hot(targets, error.shape[1]).mT
        error /= rows.shape[1]
        third = [torch.bmm(error, second.mT), error.sum(2, keepdim=True)]
        # The derivative of relu is the sign of its values, which are not negative.
        torch.bmm(w3.mT, error, out=back).mul_(second.sign_())
        middle = [torch.bmm(back, first.mT), back.sum(2, keepdim=True)]
        torch.bmm(w2.mT, back, out=second).mul_(first.sign_())
        return [torch.bmm(second, rows), second.sum(2, keepdim=True), *middle, *third]
