"""Scores: functions of the sums of a view, which are added up over chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from parafair.dependence.scales import Level
from parafair.dependence.weights import Weights

# The criterion is quadratic in a statistic up to about this many standard deviations, and linear
# beyond. A sharper bend is slower to minimize, and gains nothing: what matters is that the
# statistics end far below one standard deviation.
BEND = 4.0


class Score(Protocol):
    """A function of the sums of a view."""

    @property
    def weights(self) -> Weights:
        """The weights whose columns the sums are for."""

    def take(self, chunks: slice) -> Score:
        """Return the part for some chunks."""

    def score(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value, shape (...), for sums (..., chunks, kernels, r), and the derivative."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """The part of one view in the criterion, as a function of its sums over pairs of people.

    Attributes:
        weights: The weights of the features.
        deviation: Standard deviation of each statistic over permutations, shape (chunks, kernels,
            features).
        size: Size of each statistic if the kernel were that of the feature, of the same shape.
        share: Share of a single statistic in the criterion, of all chunks.
    """

    weights: Weights
    deviation: Tensor
    size: Tensor
    share: float

    @classmethod
    def of(cls, weights: Weights, levels: tuple[Level, ...], share: float) -> Scorer:
        """Return the scorer of a view whose kernels have these levels.

        Args:
            weights: The weights of the features.
            levels: One for each kernel.
            share: Share of the view in the criterion.
        """
        deviation = torch.stack([weights.deviation(level) for level in levels], 1)
        size = torch.stack([weights.size(level) for level in levels], 1).expand_as(deviation)
        return cls(weights, deviation, size, share / deviation.numel())

    def take(self, chunks: slice) -> Scorer:
        """Return the part for some chunks."""
        return replace(
            self,
            weights=self.weights.take(chunks),
            deviation=self.deviation[chunks],
            size=self.size[chunks],
        )

    def score(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return the score, shape (...), and its derivative in the sums.

        Args:
            sums: Those of each column of the weights, shape (..., chunks, kernels, r).
        """
        relative = self.deviations(sums) / BEND
        root = (relative.square() + 1).sqrt()
        # sqrt(x^2 + 1) - 1 without cancellation
        value = relative.square() / (root + 1) * BEND * self.deviation / self.size
        slopes = (relative / (root * self.size)) @ self.weights.coefficients
        return self.share * value.sum((-3, -2, -1)), self.share * slopes

    def deviations(self, sums: Tensor) -> Tensor:
        """Return the statistics divided by their standard deviations over permutations."""
        return self.weights.statistic(sums) / self.deviation


class Scorers(NamedTuple):
    """The scorer of each view."""

    rows: Scorer
    robust: Scorer
    columns: Scorer
    pairs: Scorer
