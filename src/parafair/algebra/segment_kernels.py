"""Kernels that add up entries on a CUDA device; `parafair.algebra.fused_segments` launches them.

A program has a tile of whole segments. It looks up the rows of the other factors, multiplies them
and adds up each segment in registers. Names in capitals are constants of a compiled kernel.
"""

import triton
import triton.language as tl


@triton.jit
def _products(
    rows, starts, indices, entries, present, count, MODES: tl.constexpr,
    RANK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Return the products of the other factors' rows at the entries of a tile."""
    columns = tl.arange(0, PADDED)
    inside = present[:, None] & (columns < RANK)[None, :]
    place = tl.load(starts) + tl.load(indices + entries, mask=present, other=0)
    found = tl.load(rows + place[:, None] * RANK + columns[None, :], mask=inside, other=0.0)
    for mode in tl.static_range(1, MODES):
        indices += count
        place = tl.load(starts + mode) + tl.load(indices + entries, mask=present, other=0)
        found *= tl.load(rows + place[:, None] * RANK + columns[None, :], mask=inside, other=0.0)
    return found


@triton.jit
def _store_segments(
    sums, weighted, tile, segments, LENGTH: tl.constexpr, TILE: tl.constexpr,
    RANK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write the sum of each segment of a tile."""
    found = tl.sum(tl.reshape(weighted, (TILE, LENGTH, PADDED)), 1)
    numbers, columns = tile * TILE + tl.arange(0, TILE), tl.arange(0, PADDED)
    inside = (numbers < segments)[:, None] & (columns < RANK)[None, :]
    tl.store(sums + numbers[:, None] * RANK + columns[None, :], found, mask=inside)


@triton.jit
def target_kernel(
    rows, starts, indices, values, sums, segments, count, height,
    MODES: tl.constexpr, LENGTH: tl.constexpr, TILE: tl.constexpr,
    RANK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write the sum of ``x w`` over each segment."""
    tile, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    rows += member * height * RANK
    sums += member * segments * RANK
    entries = tile * TILE * LENGTH + tl.arange(0, TILE * LENGTH)
    present = entries < count
    product = _products(rows, starts, indices, entries, present, count, MODES, RANK, PADDED)
    value = tl.load(values + entries, mask=present, other=0.0)
    _store_segments(sums, product * value[:, None], tile, segments, LENGTH, TILE, RANK, PADDED)


@triton.jit
def errors_kernel(
    rows, starts, indices, values, own, row, sums, squares, segments, count, height, people,
    MODES: tl.constexpr, LENGTH: tl.constexpr, TILE: tl.constexpr,
    RANK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write the sum of ``e w`` over each segment, and that of ``e**2`` over the tile."""
    tile, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    rows += member * height * RANK
    own += member * people * RANK
    sums += member * segments * RANK
    entries = tile * TILE * LENGTH + tl.arange(0, TILE * LENGTH)
    present = entries < count
    product = _products(rows, starts, indices, entries, present, count, MODES, RANK, PADDED)
    columns = tl.arange(0, PADDED)
    inside = present[:, None] & (columns < RANK)[None, :]
    place = tl.load(row + entries // LENGTH, mask=present, other=0).to(tl.int64)
    some = tl.load(own + place[:, None] * RANK + columns[None, :], mask=inside, other=0.0)
    # The rows of the padding are zero, and so are its errors.
    error = tl.sum(product * some, 1) - tl.load(values + entries, mask=present, other=0.0)
    wide = error.to(tl.float64)
    tl.store(squares + member * tl.num_programs(0) + tile, tl.sum(wide * wide, 0))
    _store_segments(sums, product * error[:, None], tile, segments, LENGTH, TILE, RANK, PADDED)


@triton.jit
def rows_kernel(
    sums, ends, total, segments, TILE: tl.constexpr, RANK: tl.constexpr, PADDED: tl.constexpr
):
    """Write the sum of the segments of each row."""
    row, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sums += member * segments * RANK
    columns = tl.arange(0, PADDED)
    begin, end = tl.load(ends + row), tl.load(ends + row + 1)
    found = tl.zeros((TILE, PADDED), sums.dtype.element_ty)
    for first in range(begin, end, TILE):
        numbers = first + tl.arange(0, TILE)
        inside = (numbers < end)[:, None] & (columns < RANK)[None, :]
        found += tl.load(sums + numbers[:, None] * RANK + columns[None, :], mask=inside, other=0.0)
    place = total + (member * tl.num_programs(0) + row) * RANK + columns
    tl.store(place, tl.sum(found, 0), mask=columns < RANK)
