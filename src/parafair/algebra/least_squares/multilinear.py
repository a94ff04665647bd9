"""The squared error in one block whose factor has a low multilinear rank; see `Multilinear`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.algebra.least_squares.constrained import ConstrainedBlock
from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock
from parafair.algebra.quadratic import QuadraticForm
from parafair.algebra.tucker_tensor import Multilinear

# Passes over the bases in one update.
PASSES = 1


@dataclass(frozen=True, eq=False)
class MultilinearBlock(ConstrainedBlock):
    """A block as a function of factors of low multilinear rank.

    Attributes:
        structure: The set of these factors.
    """

    structure: Multilinear

    @classmethod
    def of(cls, block: object, structure: Multilinear) -> MultilinearBlock:
        """Return the function of factors in this set."""
        assert isinstance(block, (SharedBlock, RowwiseBlock))
        return cls(block, structure)

    def take(self, members: Tensor) -> MultilinearBlock:
        """Return the function for some members of the batch."""
        return MultilinearBlock(self.free.take(members), self.structure)

    def improve(self, factor: Tensor) -> Tensor:
        """Return a better factor, beginning at the bases of the given one.

        If rows share ``G``, the squared error is the squared distance from ``M G^-1`` in the metric
        of ``G``, so bases are those of ``M G^-1/2``. Otherwise they are those of the factor after
        a gradient step of the size that the largest curvature allows; without curvature, as of rows
        that vanish, there is no step.
        """
        if isinstance(self.free, SharedBlock):
            values, vectors = self.free.spectrum
            least = values[..., -1:] * values.shape[-1] * torch.finfo(values.dtype).eps
            kept = values > least
            root = torch.where(kept, values, 1.0).sqrt()
            metric = vectors * root.unsqueeze(-2)
            inverse = vectors * torch.where(kept, 1 / root, 0.0).unsqueeze(-2)
            bases, _ = self.structure.split(factor @ metric)
            found = self.structure.improve(self.target @ inverse, bases, PASSES)
            return self.structure.join(*found) @ inverse.mT
        curvature = self.free.curvature(QuadraticForm.zero(factor)) * (self.free.entries / 2)
        slope = self.free.grams.products(factor) - self.target
        bases, _ = self.structure.split(factor)
        size = torch.where(curvature > 0, 1 / curvature, 0.0)
        ahead = factor - slope * size[:, None, None]
        return self.structure.join(*self.structure.improve(ahead, bases, PASSES))

    def minimizer(self, form: QuadraticForm) -> Tensor:
        """Raise: there is no exact minimizer."""
        raise ValueError("factors of low multilinear rank have no exact minimizer; use improve")

    def pool(self, rows: Tensor, weights: Tensor) -> MultilinearBlock:
        """Raise: rows depend on each other."""
        raise ValueError("rows of low multilinear rank cannot be pooled")

    def proximal(self, anchor: Tensor, slope: Tensor, weight: Tensor) -> Tensor:
        """Raise: this factor has no penalty."""
        raise ValueError("factors of low multilinear rank have no penalty")

    def minimize_columns(self, factor: Tensor) -> Tensor:
        """Raise: this is for penalties that depend on the scale."""
        raise ValueError(
            "factors of low multilinear rank need a scale-free penalty such as method='invariant'"
        )
