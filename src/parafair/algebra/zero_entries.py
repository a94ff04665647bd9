"""Sums of a loss over a list of entries and the zeros that it does not have.

    sum f(x, m)  =  sum over all cells of f(0, m)  +  sum over the list of f(x, m) - f(0, m),

where a missing entry of the list has ``f(x, m) = 0``. The first sum is that of `all_cells`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from parafair.algebra.all_cells import ClosedZeros, Tiles
from parafair.algebra.cp_tensor import Factors
from parafair.algebra.entrywise import (
    ByRows,
    Curved,
    Entries,
    Entrywise,
    ListedEntries,
    Weight,
    entries_of,
)
from parafair.algebra.observed import Observations
from parafair.algebra.zero_filled import ZeroFilledObservations


@runtime_checkable
class ZeroLoss(Protocol):
    """A loss whose sum over all cells is known in closed form, or may be computed by cell.

    Attributes:
        at_zero: ``(a, b)`` with ``f(0, m) = a m + b m**2``, whose curvature and weight is ``2 b``;
            None if the loss of a zero is no such polynomial.
    """

    at_zero: tuple[float, float] | None


def all_entries_of(observations: Observations) -> Entries:
    """Return observed entries for sums of a loss, with zeros that are not listed."""
    if isinstance(observations, ZeroFilledObservations):
        return ZeroFilledEntries(observations)
    return entries_of(observations)


@dataclass(frozen=True, eq=False)
class ZeroFilledEntries(ByRows):
    """Entries for sums of a loss; those that are not listed are zeros.

    Attributes:
        observations: The listed entries, NaN where they are missing.
    """

    observations: ZeroFilledObservations

    @cached_property
    def _listed(self) -> ListedEntries:
        own = self.observations
        return ListedEntries(own.indices, own.listed, own.shape)

    @property
    def _tiles(self) -> Tiles:
        return Tiles(self.observations.shape)

    def value_and_slopes(
        self, loss: Entrywise, factors: Factors, fixed: Factors
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of ``f`` and its slopes."""
        value, slopes = self._listed.value_and_slopes(_Beyond(loss), factors, fixed)
        closed = closed_zeros(loss)
        if closed is not None:
            more, others = closed.value_and_slopes(factors, fixed)
        else:
            more, others = self._tiles.value_and_slopes(loss, factors, fixed)
        return value + more, [a + b for a, b in zip(slopes, others, strict=True)]

    def of_rows(
        self, loss: Entrywise, weight: Weight | None, factors: Factors, fixed: Factors, mode: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values of rows, slope and Gram matrices of one mode."""
        beyond = None if weight is None else _beyond(weight)
        values, slope, grams = self._listed.of_rows(_Beyond(loss), beyond, factors, fixed, mode)
        closed = closed_zeros(loss)
        if closed is not None:
            more = closed.of_rows(factors, fixed, mode, weighted=weight is not None)
        else:
            more = self._tiles.of_rows(loss, weight, factors, fixed, mode)
        both = None if grams is None or more[2] is None else grams + more[2]
        return values + more[0], slope + more[1], both

    def margins(self, loss: Curved, factors: Factors, fixed: Factors) -> list[Tensor]:
        """Return the sums of the curvatures."""
        listed = self._listed.margins(_CurvedBeyond(loss), factors, fixed)
        closed = closed_zeros(loss)
        if closed is not None:
            more = closed.margins(factors)
        else:
            more = self._tiles.margins(loss, factors, fixed)
        return [a + b for a, b in zip(listed, more, strict=True)]


@dataclass(frozen=True)
class _Beyond:
    """The loss of listed entries beyond that of zeros in their place."""

    loss: Entrywise

    def value_and_slope(self, values: Tensor, model: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``f(x, m) - f(0, m)`` and its derivative; missing entries have no first term."""
        present = ~values.isnan()
        value, slope = self.loss.value_and_slope(values.nan_to_num(0.0), model)
        zero, zero_slope = self.loss.value_and_slope(torch.zeros_like(values), model)
        return value.where(present, 0.0) - zero, slope.where(present, 0.0) - zero_slope


@dataclass(frozen=True)
class _CurvedBeyond:
    """The curvature of listed entries beyond that of zeros in their place."""

    loss: Curved

    def curvature(self, values: Tensor, model: Tensor) -> Tensor:
        """Return the difference; missing entries have no curvature of their own."""
        return _beyond(self.loss.curvature)(values, model)


def _beyond(weight: Weight) -> Weight:
    """Return weights of listed entries beyond those of zeros in their place."""

    def beyond(values: Tensor, model: Tensor) -> Tensor:
        own = weight(values.nan_to_num(0.0), model).where(~values.isnan(), 0.0)
        return own - weight(torch.zeros_like(values), model)

    return beyond


def closed_zeros(loss: object) -> ClosedZeros | None:
    """Return the sums of the loss of zeros over all cells; None if they have no closed form."""
    if isinstance(loss, ZeroLoss) and loss.at_zero is not None:
        return ClosedZeros(*loss.at_zero)
    return None
