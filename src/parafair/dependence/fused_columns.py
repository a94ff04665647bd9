"""Waves on a CUDA device by kernels that hold none of them in memory.

Plain PyTorch writes the waves of all people to memory and reads them several times. The kernels
read the places of people alone. They need people with equal weights to follow each other, so that
sums over them are computed once for all columns ``u``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from parafair.algebra.devices import can_compile
from parafair.dependence.scales import PERIOD

if TYPE_CHECKING:
    from parafair.dependence.waves import Waves

try:
    from parafair.dependence import column_kernels
except ImportError:  # a CPU build of torch, or a system without Triton
    column_kernels = None  # type: ignore[assignment]

# Columns of a tile of features, and the slots of a column for its waves.
COLUMNS, SLOTS = 2, 32

# People of a tile, and warps that compute it.
SINGLE, SINGLE_WARPS = 256, 8
SUMMED, PULLED, WARPS = 32, 128, 4

# Sums of pairs are added up in about so many parts, of at least so many people each, so that every
# multiprocessor has some and rounding errors do not add up.
PARTS, LEAST_OF_PART = 48, 512


def is_fused(waves: Waves) -> bool:
    """Tell whether the kernels can compute the waves."""
    return (
        column_kernels is not None
        and waves.sizes is not None
        and waves.places.is_cuda
        and waves.places.dtype == torch.float32
        and len(waves.frequencies) <= SLOTS
        and 2 * waves.coarse - 1 <= SLOTS
        and can_compile(waves.places.device)
    )


def total(waves: Waves) -> tuple[Tensor, Tensor]:
    """Return the first two results of `Waves.total`, of the people of this process."""
    places, own = waves.places, _group_weights(waves)
    batch, width, people = places.shape
    length = max(LEAST_OF_PART, -(-people // PARTS))
    ranges = _ranges(waves.sizes, length, places.device)
    count, blocks, size = len(ranges), _blocks(waves), COLUMNS * SLOTS
    single = places.new_empty(batch * width, count, 2 * SLOTS)
    # Products of columns with earlier ones stay zero.
    pairs = places.new_zeros(2 * batch, count, blocks, blocks, size, size)
    with torch.cuda.device_of(places):
        column_kernels.single_sums_kernel[(batch * width, count)](
            places, ranges, single, people, 1 / PERIOD, AT_ONCE=SINGLE, num_warps=SINGLE_WARPS
        )
        if blocks:
            column_kernels.pair_sums_kernel[(2 * batch, count, blocks**2)](
                places, ranges, pairs, people, 1 / PERIOD, **_constants(waves, SUMMED)
            )
    groups = ranges[:, 2].long()
    single, pairs = (_by_group(part, groups, len(own)) for part in (single, pairs))
    waved = single[..., _order(waves)].mT @ own.double()
    shape = (2 * batch, len(own), blocks, blocks, COLUMNS, SLOTS, COLUMNS, SLOTS)
    pairs = pairs.reshape(shape).permute(0, 1, 2, 4, 5, 3, 6, 7).flatten(5, 6).flatten(2, 3)
    used, features = slice(waves.paired), slice(2 * waves.coarse - 1)
    pairs = pairs[:, :, used, features, used, features].flatten(4, 5).flatten(2, 3)
    size = pairs.shape[-1]
    paired = (own.double().mT @ pairs.flatten(-2)).reshape(batch, 2, -1, size, size)
    return waved.to(places).unflatten(0, (batch, width)), paired.to(places)


def gradient(waves: Waves, for_single: Tensor, for_pairs: Tensor) -> Tensor:
    """Return what `Waves.gradient` does."""
    places, own = waves.places, _group_weights(waves)
    batch, width, people = places.shape
    blocks = _blocks(waves)
    single = places.new_zeros(len(own), batch * width, 2 * SLOTS)
    single[..., _order(waves)] = (for_single @ own.mT).movedim(-1, 0).flatten(1, 2)
    found = torch.empty_like(places)
    with torch.cuda.device_of(places):
        ranges = _ranges(waves.sizes, SINGLE, places.device)
        column_kernels.single_pull_kernel[(batch * width, len(ranges))](
            places,
            ranges,
            single,
            found,
            people,
            1 / PERIOD,
            AT_ONCE=SINGLE,
            num_warps=SINGLE_WARPS,
        )
        if not blocks:
            return found
        features = 2 * waves.coarse - 1
        pairs = (own @ for_pairs.flatten(-2)).movedim(-2, 0).flatten(1, 2)
        pairs = pairs.unflatten(-1, (waves.paired, features, waves.paired, features))
        filled = places.new_zeros(
            *pairs.shape[:2], blocks * COLUMNS, SLOTS, blocks * COLUMNS, SLOTS
        )
        used, kept = slice(waves.paired), slice(features)
        filled[:, :, used, kept, used, kept] = pairs
        ranges = _ranges(waves.sizes, PULLED, places.device)
        column_kernels.pair_pull_kernel[(2 * batch, len(ranges), blocks)](
            places, ranges, filled, found, people, 1 / PERIOD, **_constants(waves, PULLED)
        )
    return found


def _group_weights(waves: Waves) -> Tensor:
    """Return the weights of each group of people who are alike, shape (groups, r)."""
    assert waves.sizes is not None
    starts = [sum(waves.sizes[:group]) for group in range(len(waves.sizes))]
    last = len(waves.weights) - 1  # a group without people needs no weights of its own
    found: Tensor = waves.weights[[min(start, last) for start in starts]]
    return found


def _by_group(parts: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return sums over the parts (..., parts, ...) of each group, in double precision."""
    found = parts.new_zeros(parts.shape[0], count, *parts.shape[2:], dtype=torch.float64)
    return found.index_add_(1, groups, parts.double())


def _blocks(waves: Waves) -> int:
    return -(-waves.paired // COLUMNS)


def _constants(waves: Waves, people: int) -> dict[str, int]:
    return {
        "WIDTH": waves.places.shape[1],
        "PAIRED": waves.paired,
        "COARSE": waves.coarse,
        "COLUMNS": COLUMNS,
        "AT_ONCE": people,
        "num_warps": WARPS,
        "num_stages": 1,  # more of them would not fit into shared memory
    }


def _order(waves: Waves) -> list[int]:
    """Return where each wave is among cosines, then sines, of all frequencies."""
    low, high = range(waves.coarse), range(waves.coarse, len(waves.frequencies))
    return [*low, *(SLOTS + k for k in low[1:]), *high, *(SLOTS + k for k in high)]


@lru_cache(maxsize=64)
def _ranges(sizes: tuple[int, ...], length: int, device: torch.device) -> Tensor:
    """Return ranges of at most so many people: the first, the one after the last, the group."""
    found, begin = [], 0
    for group, size in enumerate(sizes):
        starts = np.arange(begin, begin + size, length)
        ends = np.minimum(starts + length, begin + size)
        found.append(np.stack([starts, ends, np.full_like(starts, group)], 1))
        begin += size
    return torch.from_numpy(np.concatenate(found).astype(np.int32)).to(device)
