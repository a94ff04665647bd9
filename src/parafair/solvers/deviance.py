"""The deviance of a model over the observed entries, for losses that are no squared error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import Factors
from parafair.algebra.entrywise import Entries
from parafair.algebra.shares import sum_others, sum_slopes
from parafair.algebra.zero_entries import ZeroLoss, all_entries_of, closed_zeros
from parafair.arguments import instance_of
from parafair.data.centering import Offsets
from parafair.data.checks import check_values
from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES, Loss, is_squared, null_deviance
from parafair.team import ALONE, Team

# Cells at which a loss without a closed form of its zeros is computed, at most.
MOST_CELLS = 2**31


@dataclass(frozen=True, eq=False)
class Deviance:
    """``2 sum (f(x, m) - saturated(x))`` over the observed entries; see `parafair.losses`.

    Attributes:
        loss: The loss ``f``.
        data: The data.
        intercepts: Offsets on the scale of the loss's link; None for none.
        mode: The mode of the people.
        team: All processes that have some of them.
    """

    loss: Loss
    data: TensorData
    intercepts: Offsets | None
    mode: int = 0
    team: Team = ALONE

    @cached_property
    def null(self) -> float:
        """The deviance of the best constant for the entries of all processes."""
        return null_deviance(self.loss, self._values, zeros=self._zeros, team=self.team)

    @cached_property
    def saturated(self) -> float:
        """The sum of the loss of a model that fits every entry."""
        return self.team.add(self.own_saturated)

    @cached_property
    def own_saturated(self) -> float:
        """The same over the entries of this process."""
        found = float(self.loss.saturated(self._values.double()).sum())
        if self._zeros:
            found += self._zeros * float(self.loss.saturated(self._values.new_zeros(1).double()))
        return found

    @cached_property
    def is_complete(self) -> bool:
        """Whether no entry is missing in any process."""
        return not self.team.count(prod(self.data.shape) - self.data.observed)

    @property
    def _values(self) -> Tensor:
        return self.data.observations.values

    @property
    def _zeros(self) -> int:
        """Number of zeros that are not listed."""
        return self.data.observed - self._values.numel()

    @cached_property
    def entries(self) -> Entries:
        """The observed entries, arranged for sums of a loss."""
        return all_entries_of(self.data.observations)

    @cached_property
    def fixed(self) -> list[Tensor]:
        """The intercepts as components of the model; empty without any."""
        if self.intercepts is None:
            return []
        return self.intercepts.components(self.data.shape, self.data.values)

    def of_sum(self, value: Tensor) -> Tensor:
        """Return the deviance of models with this sum of the loss."""
        return (2 * (value - self.saturated)).clamp_min(0)

    def value(self, factors: Factors) -> Tensor:
        """Return the deviance in double precision, shape (batch,)."""
        value, _, _ = self.entries.slope_and_grams(self.loss, None, factors, self.fixed, 0)
        return self.of_sum(self.team.sum(value))

    def value_and_slopes(self, factors: Factors) -> tuple[Tensor, list[Tensor]]:
        """Return the deviance and half its gradient in every factor."""
        value, slopes = self.entries.value_and_slopes(self.loss, factors, self.fixed)
        value, slopes = sum_slopes(self.team, self.mode, value, slopes)
        return self.of_sum(value), slopes

    def margins(self, factors: Factors) -> list[Tensor]:
        """Return the curvature of the loss, summed at each index of every mode, (batch, size)."""
        found = self.entries.margins(self.loss, factors, self.fixed)
        return sum_others(self.team, self.mode, found)


def check_zeros(loss: Loss, shape: tuple[int, ...]) -> None:
    """Raise unless a loss can take zeros at all cells that are not listed, in reasonable time."""
    closed = [name for name, own in LOSSES.items() if closed_zeros(own) is not None]
    if not isinstance(loss, ZeroLoss):
        able = [name for name, own in LOSSES.items() if isinstance(own, ZeroLoss)]
        raise ValueError(
            f"X has zeros at all entries that are not listed (absent='zero'), which "
            f"loss={loss.name!r} does not support; use one of {', '.join(able)}, or "
            "absent='missing'"
        )
    if closed_zeros(loss) is None and prod(shape) > MOST_CELLS:
        raise ValueError(
            f"X has zeros at all entries that are not listed (absent='zero'), and "
            f"loss={loss.name!r} is computed at each of its {prod(shape):,} cells, which is more "
            f"than {MOST_CELLS:,}; use one of {', '.join(closed)}, whose sums over zeros have a "
            "closed form"
        )


def check_loss(loss: Loss, deviance: Deviance) -> None:
    """Raise unless the loss can take the data, and offsets belong to it."""
    offsets = deviance.intercepts
    if offsets is not None:
        instance_of("offsets", offsets, Offsets, "use Offsets.fit, or None")
        for mode, vector in offsets.by_mode.items():
            if mode not in range(deviance.data.order) or len(vector) != deviance.data.shape[mode]:
                raise ValueError(
                    f"offsets have {len(vector)} values for mode {mode}, but the data has the "
                    f"shape {deviance.data.shape}; fit them to this data"
                )
    if deviance.data.zeros_count:
        check_zeros(loss, deviance.data.shape)
    if is_squared(loss):
        return
    check_values(deviance.data, loss)
    values = deviance.data.observations.values
    if deviance.data.observed > values.numel():  # zeros beside them
        return
    ends = deviance.team.largest(torch.stack([values.max(), -values.min()]))
    if bool(ends[0] == -ends[1]):
        raise ValueError(
            "X has the same value everywhere, so the best constant fits it exactly and there is "
            "nothing to decompose; pass other data"
        )
