"""Kernels that compare whole rows on a CUDA device; `parafair.dependence.fused` launches them.

A program compares a tile of people with everybody of their chunk. Names in capitals are constants
of a compiled kernel. Products are "tf32x3": three products of the tensor cores, about as exact as
single precision. Numbers of people of a chunk are no such constants: they differ from fit to fit,
and a kernel takes seconds to compile.
"""

import triton
import triton.language as tl


@triton.jit
def _load(table, numbers, people, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Load rows of a table (people, WIDTH); zeros beyond its end."""
    columns = tl.arange(0, PADDED)
    inside = (numbers < people)[:, None] & (columns < WIDTH)[None, :]
    return tl.load(table + numbers[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)


@triton.jit
def _similarities(x, y, rows, columns, gamma):
    """Return the widest kernel of all pairs of a tile, zero for a person with itself."""
    cross = tl.dot(x, tl.trans(y), input_precision="tf32x3")
    squares = tl.sum(x * x, 1)[:, None] + tl.sum(y * y, 1)[None, :] - 2 * cross
    found = tl.exp(-gamma * tl.maximum(squares, 0.0))
    return tl.where(rows[:, None] == columns[None, :], 0.0, found)


@triton.jit(do_not_specialize=["chunks", "people"])
def sums_kernel(
    points, own, parts, chunks, people, gamma, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, PADDED_WEIGHTS: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over i in the tile, j != i of u_i k(x_i, x_j) u_j`` for all scales."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    points += member * people * WIDTH
    own += (member % chunks) * people * WEIGHTS
    rows = tile * TILE + tl.arange(0, TILE)
    x = _load(points, rows, people, WIDTH, PADDED_WIDTH)
    u = _load(own, rows, people, WEIGHTS, PADDED_WEIGHTS)
    scales = tl.arange(0, PADDED_SCALES)
    found = tl.zeros((PADDED_SCALES, PADDED_WEIGHTS), tl.float32)
    for begin in range(0, people, TILE):
        columns = begin + tl.arange(0, TILE)
        y = _load(points, columns, people, WIDTH, PADDED_WIDTH)
        v = _load(own, columns, people, WEIGHTS, PADDED_WEIGHTS)
        similar = _similarities(x, y, rows, columns, gamma)
        for scale in tl.static_range(SCALES):
            total = tl.sum(tl.dot(similar, v, input_precision="tf32x3") * u, 0)
            found += tl.where(scales[:, None] == scale, total[None, :], 0.0)
            squared = similar * similar
            similar = squared * squared  # the gammas grow fourfold
    weights = tl.arange(0, PADDED_WEIGHTS)
    parts += (member * tl.num_programs(1) + tile) * SCALES * WEIGHTS
    inside = (scales < SCALES)[:, None] & (weights < WEIGHTS)[None, :]
    tl.store(parts + scales[:, None] * WEIGHTS + weights[None, :], found, mask=inside)


@triton.jit(do_not_specialize=["chunks", "people"])
def gradient_kernel(
    points, own, pull, moved, chunks, people, gamma, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, PADDED_WEIGHTS: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over j of w_ij (x_j - x_i)``, with w all scales of all weights together."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    points += member * people * WIDTH
    own += (member % chunks) * people * WEIGHTS
    pull += member * SCALES * WEIGHTS
    rows = tile * TILE + tl.arange(0, TILE)
    x = _load(points, rows, people, WIDTH, PADDED_WIDTH)
    u = _load(own, rows, people, WEIGHTS, PADDED_WEIGHTS)
    weights = tl.arange(0, PADDED_WEIGHTS)
    toward = tl.zeros((TILE, PADDED_WIDTH), tl.float32)
    away = tl.zeros((TILE,), tl.float32)
    for begin in range(0, people, TILE):
        columns = begin + tl.arange(0, TILE)
        y = _load(points, columns, people, WIDTH, PADDED_WIDTH)
        v = _load(own, columns, people, WEIGHTS, PADDED_WEIGHTS)
        similar = _similarities(x, y, rows, columns, gamma)
        pair = tl.zeros((TILE, TILE), tl.float32)
        for scale in tl.static_range(SCALES):
            strength = tl.load(pull + scale * WEIGHTS + weights, mask=weights < WEIGHTS, other=0)
            scaled = u * strength[None, :]
            pair += similar * tl.dot(scaled, tl.trans(v), input_precision="tf32x3")
            squared = similar * similar
            similar = squared * squared  # the gammas grow fourfold
        toward += tl.dot(pair, y, input_precision="tf32x3")
        away += tl.sum(pair, 1)
    found = toward - away[:, None] * x
    width = tl.arange(0, PADDED_WIDTH)
    inside = (rows < people)[:, None] & (width < WIDTH)[None, :]
    places = moved + member * people * WIDTH + rows[:, None] * WIDTH + width[None, :]
    tl.store(places, found, mask=inside)


@triton.jit
def _gather(table, places, numbers, people, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Load rows of a table at the places of some people of a chunk; zeros beyond its end."""
    columns, inside = tl.arange(0, PADDED), numbers < people
    where = tl.load(places + numbers, mask=inside, other=0)
    mask = inside[:, None] & (columns < WIDTH)[None, :]
    return tl.load(table + where[:, None] * WIDTH + columns[None, :], mask=mask, other=0.0)


@triton.jit
def _alike(x, y, rows, columns, end):
    """Return the widest kernel of a tile of pairs; zero for a person with itself, and from the end.

    Rows are in units in which the kernel is ``2 ** -|x - y| ** 2``, and the first are doubled.
    """
    cross = tl.dot(x, tl.trans(y), input_precision="tf32x3")
    nobody = tl.where(columns < end, 0.0, float("inf"))
    found = cross - 0.25 * tl.sum(x * x, 1)[:, None] - (tl.sum(y * y, 1) + nobody)[None, :]
    return tl.where(rows[:, None] == columns[None, :], 0.0, tl.exp2(tl.minimum(found, 0.0)))


@triton.jit(do_not_specialize=["chunks", "everybody", "people", "runs"])
def alike_sums_kernel(
    table, places, bounds, tiles, parts, chunks, everybody, people, runs, unit,
    WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over i in the tile, j != i in a run of k(x_i, x_j)`` for all runs and scales."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    chunk = member % chunks
    table += member // chunks * everybody * WIDTH
    places += chunk * people
    bounds += chunk * (runs + 1)
    tiles += (chunk * tl.num_programs(1) + tile) * 2
    begin, last = tl.load(tiles), tl.load(bounds + tl.load(tiles + 1) + 1)
    if begin >= last:
        return
    rows = begin + tl.arange(0, TILE)
    x = 2 * unit * _gather(table, places, rows, people, WIDTH, PADDED_WIDTH)
    scales = tl.arange(0, PADDED_SCALES)
    parts += (member * tl.num_programs(1) + tile) * runs * SCALES
    for other in range(0, runs):
        end = tl.load(bounds + other + 1)
        found = tl.zeros((PADDED_SCALES, TILE), tl.float32)
        for start in range(tl.load(bounds + other), end, TILE):
            columns = start + tl.arange(0, TILE)
            y = unit * _gather(table, places, columns, people, WIDTH, PADDED_WIDTH)
            similar = _alike(x, y, rows, columns, end)
            for scale in tl.static_range(SCALES):
                found += tl.where(scales[:, None] == scale, tl.sum(similar, 1)[None, :], 0.0)
                squared = similar * similar
                similar = squared * squared  # the gammas grow fourfold
        total = tl.sum(tl.where(rows[None, :] < last, found, 0.0), 1)
        tl.store(parts + other * SCALES + scales, total, mask=scales < SCALES)


@triton.jit(do_not_specialize=["chunks", "everybody", "people", "runs"])
def alike_gradient_kernel(
    table, places, bounds, tiles, pull, moved, chunks, everybody, people, runs, unit,
    WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over j of w_ij (x_j - x_i)``, with w one number for two runs and a scale."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    chunk = member % chunks
    table += member // chunks * everybody * WIDTH
    moved += member // chunks * everybody * WIDTH
    places += chunk * people
    bounds += chunk * (runs + 1)
    tiles += (chunk * tl.num_programs(1) + tile) * 2
    begin, run = tl.load(tiles), tl.load(tiles + 1)
    last = tl.load(bounds + run + 1)
    if begin >= last:
        return
    pull += (member * runs + run) * runs * SCALES
    rows = begin + tl.arange(0, TILE)
    x = 2 * unit * _gather(table, places, rows, people, WIDTH, PADDED_WIDTH)
    toward = tl.zeros((TILE, PADDED_WIDTH), tl.float32)
    away = tl.zeros((TILE,), tl.float32)
    for other in range(0, runs):
        end = tl.load(bounds + other + 1)
        for start in range(tl.load(bounds + other), end, TILE):
            columns = start + tl.arange(0, TILE)
            y = unit * _gather(table, places, columns, people, WIDTH, PADDED_WIDTH)
            similar = _alike(x, y, rows, columns, end)
            pair = tl.zeros((TILE, TILE), tl.float32)
            for scale in tl.static_range(SCALES):
                pair += tl.load(pull + other * SCALES + scale) * similar
                squared = similar * similar
                similar = squared * squared
            toward += tl.dot(pair, y, input_precision="tf32x3")
            away += tl.sum(pair, 1)
    found = (toward - 0.5 * away[:, None] * x) / unit
    width, present = tl.arange(0, PADDED_WIDTH), rows < last
    where = tl.load(places + rows, mask=present, other=0)
    inside = present[:, None] & (width < WIDTH)[None, :]
    tl.store(moved + where[:, None] * WIDTH + width[None, :], found, mask=inside)


@triton.jit
def weighted_kernel(
    points, left, right, moved, masses, gamma,
    PEOPLE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, PADDED_WEIGHTS: tl.constexpr,
    FEW: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over j of e_ij (x_j - x_i)`` and ``sum over j of e_ij``.

    Here ``e_ij = (l_i . r_j) k(x_i, x_j)``, with l and r the rows of `left` and `right`. Tensor
    cores multiply at least 16 columns, so FEW of them are multiplied one by one.
    """
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    points += member * PEOPLE * WIDTH
    rows = tile * TILE + tl.arange(0, TILE)
    x = _load(points, rows, PEOPLE, WIDTH, PADDED_WIDTH)
    toward = tl.zeros((TILE, PADDED_WIDTH), tl.float32)
    mass = tl.zeros((TILE,), tl.float32)
    # With g' = g / ln 2, exp(-g |x - y|^2) is 2 to the power 2 g' x.y - g' x.x - g' y.y.
    gamma = gamma * 1.4426950408889634
    doubled, squares = 2 * gamma * x, gamma * tl.sum(x * x, 1)
    if not FEW:
        u = _load(left, rows, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
    for begin in range(0, PEOPLE, TILE):
        columns = begin + tl.arange(0, TILE)
        y = _load(points, columns, PEOPLE, WIDTH, PADDED_WIDTH)
        exponent = tl.dot(doubled, tl.trans(y), input_precision="tf32x3")
        exponent = exponent - squares[:, None] - (gamma * tl.sum(y * y, 1))[None, :]
        if FEW:
            weight = tl.zeros((TILE, TILE), tl.float32)
            for column in tl.static_range(WEIGHTS):
                one = tl.load(left + rows * WEIGHTS + column, mask=rows < PEOPLE, other=0.0)
                two = tl.load(right + columns * WEIGHTS + column, mask=columns < PEOPLE, other=0.0)
                weight += one[:, None] * two[None, :]
        else:
            v = _load(right, columns, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
            weight = tl.dot(u, tl.trans(v), input_precision="tf32x3")
        pair = weight * tl.exp2(tl.minimum(exponent, 0.0))
        toward += tl.dot(pair, y, input_precision="tf32x3")
        mass += tl.sum(pair, 1)
    width, present = tl.arange(0, PADDED_WIDTH), rows < PEOPLE
    places = moved + (member * PEOPLE + rows[:, None]) * WIDTH + width[None, :]
    found = toward - mass[:, None] * x
    tl.store(places, found, mask=present[:, None] & (width < WIDTH)[None, :])
    tl.store(masses + member * PEOPLE + rows, mass, mask=present)
