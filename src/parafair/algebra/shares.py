"""The observed entries of a share of the people, with sums over those of all processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.observed import (
    CompleteObservations,
    MaskedObservations,
    Observations,
    Sums,
)
from parafair.algebra.row_grams import RowGrams
from parafair.team import Team


@dataclass(frozen=True, eq=False)
class SharedObservations:
    """The entries of some people; sums of the other modes are over all people.

    Attributes:
        own: The entries of the people of this process.
        mode: The mode of the people.
        team: All processes.
    """

    own: Observations
    mode: int
    team: Team

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes, with the people of this process."""
        return self.own.shape

    @property
    def values(self) -> Tensor:
        """The observed entries of the people of this process."""
        return self.own.values

    @property
    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the entries."""
        return self.own.like

    @property
    def count(self) -> int:
        """The number of observed entries of the people of this process."""
        return self.own.count

    @property
    def norm_squared(self) -> float:
        """The sum of their squares."""
        return self.own.norm_squared

    def sums(self, factors: Factors) -> SharedSums:
        """Return the sums for these factors."""
        return SharedSums(self.own.sums(factors), self.mode, self.team)

    def residual_squared(self, factors: Factors) -> float:
        """Return the squared error over the entries of all people."""
        return self.team.add(self.own.residual_squared(factors))

    def error_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the squared error and half its gradients, by one message."""
        error, slopes = self.own.error_and_slopes(factors)
        return sum_slopes(self.team, self.mode, error, slopes)

    def counts(self, mode: int) -> Tensor:
        """Return the number of observed entries at each index."""
        own = self.own.counts(mode)
        return own if mode == self.mode else self.team.sum(own)

    def working_memory(self, rank: int) -> int:
        """Return about how many numbers the sums take per member of a batch."""
        return self.own.working_memory(rank)


def share_entries(own: Observations, mode: int, team: Team, complete: bool) -> SharedObservations:
    """Return the entries of a process, with the same kinds of sums as in all others.

    Args:
        own: The entries of the people of this process.
        mode: The mode of the people.
        team: All processes.
        complete: Whether no process has missing entries.
    """
    if isinstance(own, CompleteObservations) and not complete:
        own = MaskedObservations(own.values, torch.ones_like(own.values, dtype=torch.bool))
    return SharedObservations(own, mode, team)


class SharedSums:
    """Sums over a share of the people, added up where they are over people."""

    def __init__(self, own: Sums, mode: int, team: Team) -> None:
        self.own = own
        self.mode = mode
        self.team = team

    def target(self, mode: int) -> Tensor:
        """Return ``M``."""
        own = self.own.target(mode)
        return own if mode == self.mode else self.team.sum(own)

    def gram(self, mode: int) -> Tensor | RowGrams:
        """Return ``G``, or one for each row."""
        own = self.own.gram(mode)
        if mode == self.mode:
            return own
        if isinstance(own, RowGrams):
            return RowGrams.of(self.team.sum(own.whole()), own.rank)
        # A product with the Gram matrix of the people, which is a sum over them.
        return self.team.sum(own)

    def replace(self, mode: int, factor: Tensor) -> None:
        """Replace the factor of a mode."""
        self.own.replace(mode, factor)


def sum_slopes(
    team: Team, mode: int, value: Tensor, slopes: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Return a sum over entries and its slopes, summed over all people by one message.

    Args:
        team: All processes.
        mode: The mode of the people, whose slopes stay where they are.
        value: That of the entries of this process, shape (batch,).
        slopes: One per mode.
    """
    total, *found = sum_others(team, mode + 1, [value, *slopes])
    return total, found


def sum_others(team: Team, own: int, parts: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors summed over all processes by one message, but for one that stays as it is.

    Args:
        team: All processes.
        own: Which one stays: it is about the people of this process.
        parts: The tensors.
    """
    summed = team.sums([*parts[:own], *parts[own + 1 :]])
    return [*summed[:own], parts[own], *summed[own:]]
