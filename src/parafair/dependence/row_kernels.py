"""Kernels that compare whole rows on a CUDA device; `parafair.dependence.fused` launches them.

A program compares a tile of people with everybody of their chunk. Names in capitals are constants
of a compiled kernel. Products are "tf32x3": three products of the tensor cores, about as exact as
single precision.
"""

import triton
import triton.language as tl


@triton.jit
def _load(table, numbers, PEOPLE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Load rows of a table (PEOPLE, WIDTH); zeros beyond its end."""
    columns = tl.arange(0, PADDED)
    inside = (numbers < PEOPLE)[:, None] & (columns < WIDTH)[None, :]
    return tl.load(table + numbers[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)


@triton.jit
def _similarities(x, y, rows, columns, gamma):
    """Return the widest kernel of all pairs of a tile, zero for a person with itself."""
    cross = tl.dot(x, tl.trans(y), input_precision="tf32x3")
    squares = tl.sum(x * x, 1)[:, None] + tl.sum(y * y, 1)[None, :] - 2 * cross
    found = tl.exp(-gamma * tl.maximum(squares, 0.0))
    return tl.where(rows[:, None] == columns[None, :], 0.0, found)


@triton.jit
def sums_kernel(
    points, own, parts, chunks, gamma,
    PEOPLE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, PADDED_WEIGHTS: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over i in the tile, j != i of u_i k(x_i, x_j) u_j`` for all scales."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    points += member * PEOPLE * WIDTH
    own += (member % chunks) * PEOPLE * WEIGHTS
    rows = tile * TILE + tl.arange(0, TILE)
    x = _load(points, rows, PEOPLE, WIDTH, PADDED_WIDTH)
    u = _load(own, rows, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
    scales = tl.arange(0, PADDED_SCALES)
    found = tl.zeros((PADDED_SCALES, PADDED_WEIGHTS), tl.float32)
    for begin in range(0, PEOPLE, TILE):
        columns = begin + tl.arange(0, TILE)
        y = _load(points, columns, PEOPLE, WIDTH, PADDED_WIDTH)
        v = _load(own, columns, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
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


@triton.jit
def gradient_kernel(
    points, own, pull, moved, chunks, gamma,
    PEOPLE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr, PADDED_WEIGHTS: tl.constexpr,
    SCALES: tl.constexpr, PADDED_SCALES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write ``sum over j of w_ij (x_j - x_i)``, with w all scales of all weights together."""
    member, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    points += member * PEOPLE * WIDTH
    own += (member % chunks) * PEOPLE * WEIGHTS
    pull += member * SCALES * WEIGHTS
    rows = tile * TILE + tl.arange(0, TILE)
    x = _load(points, rows, PEOPLE, WIDTH, PADDED_WIDTH)
    u = _load(own, rows, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
    weights = tl.arange(0, PADDED_WEIGHTS)
    toward = tl.zeros((TILE, PADDED_WIDTH), tl.float32)
    away = tl.zeros((TILE,), tl.float32)
    for begin in range(0, PEOPLE, TILE):
        columns = begin + tl.arange(0, TILE)
        y = _load(points, columns, PEOPLE, WIDTH, PADDED_WIDTH)
        v = _load(own, columns, PEOPLE, WEIGHTS, PADDED_WEIGHTS)
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
    inside = (rows < PEOPLE)[:, None] & (width < WIDTH)[None, :]
    places = moved + member * PEOPLE * WIDTH + rows[:, None] * WIDTH + width[None, :]
    tl.store(places, found, mask=inside)


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
