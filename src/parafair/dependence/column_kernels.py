"""Kernels of waves on a CUDA device; `parafair.dependence.fused_columns` launches them.

A program computes the waves of some people in registers, uses them and forgets them. All waves are
cosines: a sine is a cosine a quarter of a turn later. Names in capitals are constants of a compiled
kernel. Products are "tf32x3": three products of the tensor cores, about as exact as single
precision.
"""

import triton
import triton.language as tl

# Waves of a column have so many slots, because tiles have powers of two.
SLOTS: tl.constexpr = tl.constexpr(32)


@triton.jit
def _cosines(places, turns, phases):
    """Return the cosines of so many turns times the place plus a phase, also in turns."""
    whole = tl.floor(tl.fma(turns, places, phases) + 0.5)
    # A phase minus a whole number is exact, so nothing is lost by large numbers of turns.
    w = 0.25 - tl.abs(tl.fma(turns, places, phases - whole))
    square = w * w
    # sin(2 pi w) for |w| <= 1/4, correct to 4e-9.
    found = tl.fma(square, 39.53670323, -76.54978183)
    found = tl.fma(square, found, 81.60100405)
    found = tl.fma(square, found, -41.34165503)
    return w * tl.fma(square, found, 6.28318516)


@triton.jit
def _coarse(slots, COARSE: tl.constexpr):
    """Return turns and phases of cosines from frequency 0 on, then sines from 1; then zeros."""
    sine = slots - (COARSE - 1)
    turns = tl.where(slots < COARSE, slots, tl.where(sine < COARSE, sine, 0))
    phases = tl.where(slots < COARSE, 0.0, -0.25)
    return turns.to(tl.float32), phases


@triton.jit
def _features(places, people, inside, row, turn, COLUMNS: tl.constexpr, COARSE: tl.constexpr):
    """Return the waves of some columns, shape (COLUMNS * SLOTS, people)."""
    numbers = tl.arange(0, COLUMNS * SLOTS)
    turns, phases = _coarse(numbers % SLOTS, COARSE)
    where = places + (numbers // SLOTS)[:, None] * row + people[None, :]
    x = turn * tl.load(where, mask=inside, other=0.0)
    return _cosines(x, turns[:, None], phases[:, None])


@triton.jit
def single_sums_kernel(
    places, ranges, found, people, turn,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Write sums over ranges of people of cosines, then sines, of one column."""
    column, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places += column * people
    first, end = tl.load(ranges + 3 * part), tl.load(ranges + 3 * part + 1)
    turns = tl.arange(0, SLOTS)
    frequencies = turns.to(tl.float32)[:, None]
    cosines = tl.zeros((SLOTS, AT_ONCE), tl.float32)
    sines = tl.zeros((SLOTS, AT_ONCE), tl.float32)
    for begin in range(first, end, AT_ONCE):
        own = begin + tl.arange(0, AT_ONCE)
        present = (own < end)[None, :]
        x = (turn * tl.load(places + own, mask=own < end, other=0.0))[None, :]
        cosines += tl.where(present, _cosines(x, frequencies, 0.0), 0.0)
        sines += tl.where(present, _cosines(x, frequencies, -0.25), 0.0)
    found += (column * tl.num_programs(1) + part) * 2 * SLOTS
    tl.store(found + turns, tl.sum(cosines, 1))
    tl.store(found + SLOTS + turns, tl.sum(sines, 1))


@triton.jit
def pair_sums_kernel(
    places, ranges, found, people, turn,
    WIDTH: tl.constexpr, PAIRED: tl.constexpr, COARSE: tl.constexpr,
    COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Write sums over ranges of people of products of the waves of some columns with others."""
    half, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, end = tl.load(ranges + 3 * part), tl.load(ranges + 3 * part + 1)
    # Products of columns with earlier ones are not needed.
    blocks: tl.constexpr = (PAIRED + COLUMNS - 1) // COLUMNS
    one, other = tl.program_id(2) // blocks, tl.program_id(2) % blocks
    if other < one:
        return
    places += half * (WIDTH // 2) * people
    within = tl.arange(0, COLUMNS * SLOTS) // SLOTS
    size: tl.constexpr = COLUMNS * SLOTS
    total = tl.zeros((size, size), tl.float32)
    for begin in range(first, end, AT_ONCE):
        own = begin + tl.arange(0, AT_ONCE)
        present = (own < end)[None, :]
        inside = present & (one * COLUMNS + within < PAIRED)[:, None]
        left = _features(
            places + one * COLUMNS * people, own, inside, people, turn, COLUMNS, COARSE
        )
        left = tl.where(inside, left, 0.0)
        inside = present & (other * COLUMNS + within < PAIRED)[:, None]
        right = _features(
            places + other * COLUMNS * people, own, inside, people, turn, COLUMNS, COARSE
        )
        total += tl.dot(left, tl.trans(right), input_precision="tf32x3")
    found += ((half * tl.num_programs(1) + part) * blocks * blocks + tl.program_id(2)) * size * size
    rows, columns = tl.arange(0, size), tl.arange(0, size)
    tl.store(found + rows[:, None] * size + columns[None, :], total)


@triton.jit
def single_pull_kernel(
    places, ranges, slopes, found, people, turn,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Write, for each person, the sum of the waves of one column times the slopes of its group."""
    column, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, end = tl.load(ranges + 3 * part), tl.load(ranges + 3 * part + 1)
    group = tl.load(ranges + 3 * part + 2)
    turns = tl.arange(0, SLOTS)
    frequencies = turns.to(tl.float32)[:, None]
    slopes += (group * tl.num_programs(0) + column) * 2 * SLOTS
    for_cosines, for_sines = tl.load(slopes + turns), tl.load(slopes + SLOTS + turns)
    own = first + tl.arange(0, AT_ONCE)
    x = (turn * tl.load(places + column * people + own, mask=own < end, other=0.0))[None, :]
    pulled = for_cosines[:, None] * _cosines(x, frequencies, 0.0)
    pulled += for_sines[:, None] * _cosines(x, frequencies, -0.25)
    tl.store(found + column * people + own, tl.sum(pulled, 0), mask=own < end)


@triton.jit
def pair_pull_kernel(
    places, ranges, slopes, found, people, turn,
    WIDTH: tl.constexpr, PAIRED: tl.constexpr, COARSE: tl.constexpr,
    COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Add, for each person and column, what the waves of all other columns pull."""
    half, part, one = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    first, end = tl.load(ranges + 3 * part), tl.load(ranges + 3 * part + 1)
    group = tl.load(ranges + 3 * part + 2)
    blocks: tl.constexpr = (PAIRED + COLUMNS - 1) // COLUMNS
    size: tl.constexpr = COLUMNS * SLOTS
    places += half * (WIDTH // 2) * people
    slopes += (group * tl.num_programs(0) + half) * blocks * blocks * size * size
    slopes += one * COLUMNS * SLOTS * blocks * size
    own = first + tl.arange(0, AT_ONCE)
    numbers = tl.arange(0, size)
    within = numbers // SLOTS
    pulled = tl.zeros((size, AT_ONCE), tl.float32)
    for other in range(0, blocks):
        inside = (own < end)[None, :] & (other * COLUMNS + within < PAIRED)[:, None]
        theirs = _features(
            places + other * COLUMNS * people, own, inside, people, turn, COLUMNS, COARSE
        )
        by = tl.load(slopes + numbers[:, None] * blocks * size + other * size + numbers[None, :])
        pulled += tl.dot(by, theirs, input_precision="tf32x3")
    inside = (own < end)[None, :] & (one * COLUMNS + within < PAIRED)[:, None]
    pulled *= _features(places + one * COLUMNS * people, own, inside, people, turn, COLUMNS, COARSE)
    moved = tl.sum(tl.reshape(pulled, (COLUMNS, SLOTS, AT_ONCE)), 1)
    columns = tl.arange(0, COLUMNS)
    where = found + (half * (WIDTH // 2) + one * COLUMNS + columns)[:, None] * people + own[None, :]
    inside = (own < end)[None, :] & (one * COLUMNS + columns < PAIRED)[:, None]
    tl.store(where, moved + tl.load(where, mask=inside, other=0.0), mask=inside)
