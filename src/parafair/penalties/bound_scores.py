"""Bound penalties on predicted scores: functions of all factors, for a whole batch of fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.group_scores import BlockScores, GroupScores, Moments
from parafair.algebra.least_squares import Block

Strength = float | Tensor


def mean_differences(moments: Moments) -> Tensor:
    """Return half the squared difference of means, the mean over all pairs, shape (batch,).

    The squared differences of all pairs of k numbers add up to k times those from their mean.
    """
    means = moments.means
    apart = (means - means.mean(-1, keepdim=True)).square().sum(-1)
    return apart / (len(moments.counts) - 1)


@dataclass(frozen=True, eq=False)
class BoundScores:
    """A multiple of a function of the moments of the groups' scores.

    Scores do not change when scale moves between the factors, so neither does the penalty.

    Attributes:
        scores: The predicted scores of the groups.
        strength: The multiple; shape (batch,) if members of a batch differ.
        compare: The function, in double precision; differentiable, shape (batch,).
    """

    scores: GroupScores
    strength: Strength
    compare: Callable[[Moments], Tensor]

    def value(self, factors: Factors) -> Tensor:
        """Return the value of each member of a batch, shape (batch,)."""
        moments, _ = self.scores.moments_and_slopes(factors)
        return self.strength * self.compare(moments)

    def value_and_gradients(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the value and the gradient in every factor."""
        moments, slopes = self.scores.moments_and_slopes(factors)
        value, of_sums, of_squares = derive(self.compare, moments, self.strength)
        return value, self.scores.gradients(factors, slopes, of_sums, of_squares)

    def block(self, factors: Factors, mode: int) -> BlockPenalty:
        """Return the penalty as a function of the factor of one mode."""
        return BlockPenalty(self.scores.block(factors, mode), self.strength, self.compare)

    def with_strengths(self, strengths: Tensor) -> Self:
        """Return the penalty with a strength for each member of a batch, shape (batch,)."""
        return replace(self, strength=strengths.double())


@dataclass(frozen=True, eq=False)
class BoundMeans(BoundScores):
    """A multiple of `mean_differences`, which is quadratic in each factor."""

    compare: Callable[[Moments], Tensor] = mean_differences

    def block(self, factors: Factors, mode: int) -> BlockMeans:
        """Return the penalty as a function of the factor of one mode, which is quadratic."""
        return BlockMeans(self.scores.block(factors, mode), self.strength, self.compare)


@dataclass(frozen=True, eq=False)
class BlockPenalty:
    """A penalty on scores as a function of one factor; a `parafair.penalties.BoundPenalty`."""

    scores: BlockScores
    strength: Strength
    compare: Callable[[Moments], Tensor]

    def value(self, factor: Tensor) -> Tensor:
        """Return the value of each member, shape (batch,)."""
        return self.strength * self.compare(self.scores.moments(factor))

    def value_and_gradient(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient."""
        moments = self.scores.moments(factor)
        value, of_sums, of_squares = derive(self.compare, moments, self.strength)
        return value, self.scores.gradient(factor, of_sums, of_squares)


@dataclass(frozen=True, eq=False)
class BlockMeans(BlockPenalty):
    """``v sum_g (<C_g, A> + d_g)**2``, with ``C_g`` the slopes of the centered means."""

    def minimizer(self, block: Block, factor: Tensor) -> Tensor:
        """Return the exact minimizer of loss plus penalty; the value of `factor` does not matter.

        With ``D`` the curvature of the loss and ``y_g = <C_g, A> + d_g``, the minimizer is that of
        the loss minus ``2 v sum_g y_g D^-1 C_g``. By Woodbury's identity, ``y`` solves ``(I + 2 v
        K) y = y_0`` with ``K = <C_g, D^-1 C_h>``, a system of the size of the number of groups.
        Strengths, and rows that the loss hardly holds, can make ``v K`` so large that nothing is
        left of ``I``. So its eigenvectors are used, and the constant one, along which ``K`` and
        ``y_0`` are zero, gets an eigenvalue like the others.
        """
        free = block.solve(block.target)
        counts, groups = self.scores.counts, len(self.scores.counts)
        slopes = self.scores.slopes_of_sums(factor) / counts.to(factor)[:, None, None]
        slopes = slopes - slopes.mean(1, keepdim=True)
        solved = torch.stack([block.solve(slope) for slope in slopes.unbind(1)], 1)
        inner = torch.einsum("bgnr,bhnr->bgh", slopes.double(), solved.double())
        means = self.scores.moments(free).means
        apart = means - means.mean(-1, keepdim=True)
        # `solve` inverts G, and the curvature of the loss is 2 G / |X|.
        weight = torch.as_tensor(self.strength, dtype=torch.float64, device=inner.device)
        weight = (weight * block.entries / (groups - 1)).expand(len(free))[:, None]
        trace = inner.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        sizes, vectors = torch.linalg.eigh((inner + inner.mT) / 2 + trace / groups)
        along = torch.einsum("bgk,bg->bk", vectors, apart) / (1 + weight * sizes.clamp_min(0))
        held = weight * torch.einsum("bgk,bk->bg", vectors, along)
        return free - torch.einsum("bg,bgnr->bnr", held.to(free), solved)


def derive(
    compare: Callable[[Moments], Tensor], moments: Moments, strength: Strength
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a multiple of a function of the moments, and its derivatives in ``S`` and ``Q``."""
    with torch.enable_grad():
        sums, squares = (part.detach().requires_grad_() for part in (moments.sums, moments.squares))
        value = strength * compare(Moments(moments.counts, sums, squares))
        # Members are independent, so the gradient of the sum contains the gradient of each.
        of_sums, of_squares = torch.autograd.grad(
            value.sum(), (sums, squares), materialize_grads=True
        )
    # Before torch 2.5, derivatives that are zero everywhere have a history.
    return value.detach(), of_sums.detach(), of_squares.detach()
