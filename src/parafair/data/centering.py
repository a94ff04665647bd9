"""Offsets: the mean, and what each index of the other modes adds to it on average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.zero_entries import all_entries_of
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData
from parafair.losses import Loss, is_squared
from parafair.losses.deviance import best_constant
from parafair.team import ALONE, Team

# An index is treated as if it had this many more entries, all of them at the mean.
EXTRA_ENTRIES = 1.0
SWEEPS = 10

# Combinations of the other modes whose sums are held, if entries are streamed: 256 MB.
MOST_CELLS = 2**24

# The longest step of an intercept on the scale of a link.
LONGEST = 3.0


@dataclass(frozen=True, eq=False)
class Offsets:
    """``mean + sum_m by_mode[m][i_m]``, to be subtracted before a fit and added to predictions.

    With a loss that has a link, they are part of the model instead: intercepts.

    People have no offset: it would describe them outside their embedding, where no penalty and no
    audit looks.

    Attributes:
        mean: The mean of the observed entries.
        by_mode: One vector for each mode but that of the people.
    """

    mean: float
    by_mode: Mapping[int, Tensor]

    def __repr__(self) -> str:
        return f"Offsets(mean {self.mean:.4g}, of modes {', '.join(map(str, self.by_mode))})"

    @classmethod
    def of(cls, data: TensorData, people: int, team: Team = ALONE) -> Offsets:
        """Fit offsets to the observed entries by least squares, one mode after the other.

        Args:
            data: The data.
            people: The mode of the people, which gets no offsets.
            team: All processes; each has the data of some of the people, or reads a share of all
                if it is streamed.
        """
        if isinstance(data, StreamedData):
            return cls._of_cells(data, team)
        if data.zeros_count:
            return cls._with_zeros(data, people)
        indices, values = data.cells, data.entries
        mean = team.add(float(values.sum(dtype=torch.float64))) / team.count(len(values))
        left = values - mean
        found: dict[int, Tensor] = {
            mode: values.new_zeros(size) for mode, size in enumerate(data.shape) if mode != people
        }
        for _ in range(SWEEPS):
            for mode, before in found.items():
                place = indices[mode]
                left = left + before[place]
                count = torch.bincount(place, minlength=len(before)).to(values)
                total = torch.zeros_like(before).index_add_(0, place, left)
                total, count = team.sums([total, count])
                found[mode] = total / (count + EXTRA_ENTRIES)
                left = left - found[mode][place]
        return cls(mean, found)

    @classmethod
    def _of_cells(cls, data: StreamedData, team: Team) -> Offsets:
        """Fit the same offsets to sums over all entries of each combination of the other modes."""
        sizes = data.shape[1:]
        if prod(sizes) > MOST_CELLS:
            others = " x ".join(data.modes[1:])
            raise ValueError(
                f"center=True needs at most {MOST_CELLS:,} combinations of {others} if data is "
                f"streamed, got {prod(sizes):,}; subtract means before sorting, or leave center "
                "out"
            )
        sums, counts = torch.zeros(2, prod(sizes), dtype=torch.float64, device="cpu")
        for tile in data.turn(team)[0].to("cpu", torch.float64).stream():
            cell = torch.from_numpy(np.ravel_multi_index(tuple(tile.indices[1:].numpy()), sizes))
            sums += torch.bincount(cell, tile.values, minlength=len(sums))
            counts += torch.bincount(cell, minlength=len(counts))
        sums, counts = team.sums([sums, counts])
        places = torch.stack(torch.unravel_index(torch.arange(len(sums), device="cpu"), sizes))
        mean = float(sums.sum() / counts.sum())
        left = sums - counts * mean
        found = {mode: sums.new_zeros(size) for mode, size in enumerate(sizes, 1)}
        for _ in range(SWEEPS):
            for mode, before in found.items():
                place = places[mode - 1]
                left = left + counts * before[place]
                count = torch.zeros_like(before).index_add_(0, place, counts)
                total = torch.zeros_like(before).index_add_(0, place, left)
                found[mode] = total / (count + EXTRA_ENTRIES)
                left = left - counts * found[mode][place]
        return cls(mean, {mode: vector.to(data.like) for mode, vector in found.items()})

    @classmethod
    def _with_zeros(cls, data: TensorData, people: int) -> Offsets:
        """Fit the same to data whose absent entries are zeros, from sums over the listed ones."""
        assert data.indices is not None
        values = data.values.double()
        listed, missing = values.nan_to_num(0.0), data.indices[:, values.isnan()]
        others = [mode for mode in range(data.order) if mode != people]
        counts = {m: torch.from_numpy(data.observed_per(m)).to(listed) for m in others}
        sums = {
            m: listed.new_zeros(data.shape[m]).index_add_(0, data.indices[m], listed)
            for m in others
        }
        found = cls(float(listed.sum()) / data.observed, {m: 0 * sums[m] for m in others})
        for _ in range(SWEEPS):
            for mode in others:
                rest = cls(found.mean, {m: v for m, v in found.by_mode.items() if m != mode})
                # The sum of the other offsets over all cells of an index, without missing ones.
                level = rest.mean + sum(float(v.mean()) for v in rest.by_mode.values())
                expected = torch.full_like(sums[mode], level * prod(data.shape) / data.shape[mode])
                expected.index_add_(0, missing[mode], rest.at(missing).to(listed), alpha=-1)
                own = (sums[mode] - expected) / (counts[mode] + EXTRA_ENTRIES)
                found = cls(found.mean, {**found.by_mode, mode: own})
        vectors = {mode: vector.to(data.values) for mode, vector in found.by_mode.items()}
        return cls(found.mean, vectors)

    @classmethod
    def fit(cls, data: TensorData, people: int, loss: Loss, team: Team = ALONE) -> Offsets:
        """Fit offsets for a loss: by least squares, or on the scale of its link."""
        if is_squared(loss):
            return cls.of(data, people, team)
        return cls.in_link(data, people, loss, team)

    @classmethod
    def in_link(cls, data: TensorData, people: int, loss: Loss, team: Team = ALONE) -> Offsets:
        """Fit intercepts: offsets on the scale of a loss's link, by Newton's steps.

        Args:
            data: The data.
            people: The mode of the people, which gets none.
            loss: The loss.
            team: All processes; each has the data of some of the people.
        """
        if data.zeros_count:
            return cls._in_link_with_zeros(data, people, loss)
        indices, values = data.cells, data.entries.double()
        mean = best_constant(loss, values, team)
        model = torch.full_like(values, mean)
        # An index has extra entries with an intercept of zero, so that one of zeros alone ends.
        curved = team.add(float(loss.curvature(values, model).sum()))
        extra = EXTRA_ENTRIES * curved / team.count(len(values))
        found = {
            mode: values.new_zeros(size) for mode, size in enumerate(data.shape) if mode != people
        }
        for _ in range(SWEEPS):
            for mode, before in found.items():
                place = indices[mode]
                slope = torch.zeros_like(before)
                slope.index_add_(0, place, loss.value_and_slope(values, model)[1])
                curvature = torch.zeros_like(before)
                curvature.index_add_(0, place, loss.curvature(values, model))
                slope, curvature = team.sums([slope, curvature])
                step = (slope + extra * before) / (curvature + extra)
                found[mode] = before - step.clamp(-LONGEST, LONGEST)
                model = model + (found[mode] - before)[place]
        return cls(mean, {mode: vector.to(data.values) for mode, vector in found.items()})

    @classmethod
    def _in_link_with_zeros(cls, data: TensorData, people: int, loss: Loss) -> Offsets:
        """Fit the same to data whose absent entries are zeros."""
        whole = data.to(dtype=torch.float64)
        entries, values = all_entries_of(whole.observations), whole.entries
        zeros = data.observed - len(values)
        mean = loss.constant(values.sum().reshape(1) / data.observed)
        at_mean = torch.full_like(values, mean)
        curved = float(loss.curvature(values, at_mean).sum())
        if zeros:
            zero = values.new_zeros(1)
            curved += zeros * float(loss.curvature(zero, torch.full_like(zero, mean)))
        extra = EXTRA_ENTRIES * curved / data.observed
        others = [mode for mode in range(data.order) if mode != people]
        found = cls(mean, {mode: values.new_zeros(data.shape[mode]) for mode in others})
        for _ in range(SWEEPS):
            for column, mode in enumerate(others):
                model = [each[None] for each in found.components(data.shape, values)]
                slope = entries.value_and_slopes(loss, model, [])[1][mode][0, :, column]
                curvature = entries.margins(loss, model, [])[mode][0]
                before = found.by_mode[mode]
                step = (slope + extra * before) / (curvature + extra)
                vector = before - step.clamp(-LONGEST, LONGEST)
                found = cls(mean, {**found.by_mode, mode: vector})
        return cls(mean, {mode: vector.to(data.values) for mode, vector in found.by_mode.items()})

    def components(self, shape: tuple[int, ...], like: Tensor) -> list[Tensor]:
        """Return the offsets as components of a decomposition, one (size, columns) per mode.

        Each has the vector of one mode, and ones in all others.
        """
        found = [like.new_ones(size, len(self.by_mode)) for size in shape]
        for column, (mode, vector) in enumerate(self.by_mode.items()):
            found[mode][:, column] = vector.to(like)
            if column == 0:
                found[mode][:, 0] += self.mean
        return found

    def at(self, indices: Tensor) -> Tensor:
        """Return the offsets of some entries; indices (order, count).

        An index of -1 is one without entries, whose offset is 0.
        """
        total = indices.new_full((indices.shape[1],), self.mean, dtype=torch.float64)
        for mode, vector in self.by_mode.items():
            with_last = torch.cat([vector.to(total), total.new_zeros(1)])
            total = total + with_last[indices[mode]]
        return total

    def subtract(self, data: TensorData, team: Team = ALONE) -> TensorData:
        """Return the data without its offsets.

        Args:
            data: The data.
            team: All processes that have it.
        """
        if isinstance(data, StreamedData):
            own = Offsets(self.mean, {mode: v.cpu() for mode, v in self.by_mode.items()})
            return data.with_change(lambda indices, values: values - own.at(indices), team)
        if data.zeros_count:
            raise ValueError(
                "center=True cannot be used with absent='zero' and loss='squared': zeros minus "
                "offsets are no zeros, and would have to be stored. Leave center out, with one "
                "more component in its place, or use absent='missing'"
            )
        if data.indices is None:
            return data.with_values(data.values - self.dense(data.values))
        return data.with_values(data.values - self.at(data.indices).to(data.values))

    def dense(self, like: Tensor) -> Tensor:
        """Return the offsets of all entries, in a shape that broadcasts to that of `like`."""
        total = like.new_full((1,) * like.ndim, self.mean)
        for mode, vector in self.by_mode.items():
            total = total + vector.to(like).reshape(
                [-1 if m == mode else 1 for m in range(like.ndim)]
            )
        return total
