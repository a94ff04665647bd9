"""Random numbers that follow from entries: the same on all machines, unknown without the entries.

They depend on entries as they were given. Computed numbers differ in the last bit between machines
and numbers of threads, and everything drawn from them would be different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from parafair.data.arrays import pieces
from parafair.data.streamed import StreamedData
from parafair.data.tensor_data import TensorData

# Constants of splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# 2014.
STEP, FIRST, SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

# Entries of people that are hashed at once.
PIECE = 2**20

Words = NDArray[np.uint64]


def secret_of(
    data: TensorData, side: TensorData | None = None, *, dtype: torch.dtype | None = None
) -> str:
    """Return a hash of all observed entries.

    It is the same for the same entries in any arrangement, dense or sparse, on any device; but not
    if zeros are listed or stored in one and not in the other.

    Args:
        data: The data.
        side: A table of side information, whose entries count too; None for none.
        dtype: The precision of the entries; None for that of the data.
    """
    if side is not None:
        found = f"{secret_of(data, dtype=dtype)} {secret_of(side, dtype=dtype)}"
        return hashlib.sha256(found.encode()).hexdigest()
    precision = data.dtype if dtype is None else dtype
    digest = hashlib.sha256(repr(data.shape).encode())
    if data.zeros_count or data.observed < prod(data.shape):
        for mode in range(data.order):
            for part in _positions(data, mode):
                digest.update(np.ascontiguousarray(part, "<i8").data)
    if data.zeros_count and data.indices is not None:
        missing = data.indices[:, data.values.isnan()].cpu().numpy()
        digest.update(b"others are zero" + np.ascontiguousarray(missing, "<i8").tobytes())
    for entries in _entries(data):
        digest.update(np.ascontiguousarray(_as_doubles(entries.to(precision)), "<f8").data)
    return digest.hexdigest()


def _positions(data: TensorData, mode: int) -> Iterator[NDArray[Any]]:
    """Yield the positions of all observed entries in a mode, in pieces and in order."""
    if isinstance(data, StreamedData):
        yield from data.column(mode)
    elif data.indices is not None:
        yield data.cells[mode].cpu().numpy()
    else:
        rest, begin = prod(data.shape[mode + 1 :]), 0
        for piece in pieces(data.values):
            flat = begin + (~piece.isnan()).flatten().nonzero().flatten()
            yield (flat // rest % data.shape[mode]).cpu().numpy()
            begin += piece.numel()


def _entries(data: TensorData) -> Iterator[Tensor]:
    """Yield all observed entries, in pieces and in order."""
    if isinstance(data, StreamedData):
        yield from map(torch.from_numpy, data.column(data.order))
    elif data.indices is not None:
        yield from pieces(data.entries)
    else:
        yield from (piece[~piece.isnan()] for piece in pieces(data.values))


def secret_for_new_people(secret: str) -> str:
    """Return a secret that a model may keep: the given one, of its training data, stays unknown."""
    return hashlib.sha256(f"new people {secret}".encode()).hexdigest()


def normals_of_people(
    data: TensorData,
    mode: int,
    count: int,
    *,
    key: str,
    side: TensorData | None = None,
    zeros: bool = False,
) -> NDArray[np.float64]:
    """Return standard normal numbers for each person; arguments as in `uniforms_of_people`."""
    uniforms = uniforms_of_people(data, mode, count, key=key, side=side, zeros=zeros)
    normals: NDArray[np.float64] = ndtri(uniforms)
    return normals


def uniforms_of_people(
    data: TensorData,
    mode: int,
    count: int,
    *,
    key: str,
    side: TensorData | None = None,
    zeros: bool = False,
) -> NDArray[np.float64]:
    """Return numbers between 0 and 1 for each person, shape (people, count).

    A person's numbers depend on the key and on that person's cells and entries alone, in any order.
    The second of several people with equal entries, and further ones, have numbers of their own:
    equal noise would hide none of them from those who know the others.

    Args:
        data: Entries of the people.
        mode: The mode of the people.
        count: How many numbers each person gets.
        key: Any text. Without it nobody can draw the numbers again, even with the entries.
        side: Further entries of theirs, people in rows; None for none.
        zeros: Whether a list may leave out zeros. They have no part in the numbers then, listed,
            stored or absent, but missing entries have.
    """
    words = _words_of(key)
    if zeros:
        # Those of a person with zeros alone follow from the key too.
        found = _hash_people(*_without_zeros(data), data.shape[mode], mode, words)
        found = found + _mix(words.reshape(2, 2)[:, :1])
    else:
        found = _hash_people(*_observed(data), data.shape[mode], mode, words)
    if side is not None:
        own = _words_of(f"{key} side")
        found = found + _hash_people(*_observed(side), side.shape[0], 0, own)
    before = _equal_before(found)
    found = np.where(before > 0, _mix(found ^ _mix(before)), found)
    first, second = found[:, :, None]
    steps = STEP * np.arange(1, count + 1, dtype=np.uint64)
    drawn = _mix(_mix(first + steps) ^ second)
    # 53 bits, in the middle of their interval: never 0 or 1.
    uniform: NDArray[np.float64] = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return uniform


def hash_people_rounded(data: TensorData, mode: int, *, key: str, zeros: bool = False) -> Words:
    """Return 64 bits for each person that follow from the entries in single precision, (people,).

    This is the multilinear hash, a sum of products with random words modulo 2^64: Lemire and Kaser,
    "Strongly universal string hashing is fast", 2014. It takes a fraction of the time of
    `uniforms_of_people`, and is good enough to recognize somebody.

    Args:
        data: Entries of the people, not streamed.
        mode: The mode of the people.
        key: Any text.
        zeros: As in `uniforms_of_people`.
    """
    before, after = _words_of(key)[:2]
    people = data.shape[mode]
    if data.indices is None and not zeros:
        found = np.empty(people, np.uint64)
        cells = _mix_cells(_cells_of_person(data.shape, mode), mode, before)
        rows = data.values.movedim(mode, 0).flatten(1)
        size = max(1, PIECE // max(1, rows.shape[1]))
        for begin in range(0, people, size):
            values = _as_doubles(rows[begin : begin + size])
            words = np.where(np.isnan(values), np.uint64(0), _rounded(values))
            found[begin : begin + size] = words @ cells
    else:
        indices, values = (_without_zeros if zeros else _observed)(data)
        words = _mix_cells(indices, mode, before) * _rounded(values)
        sums = torch.zeros(people, dtype=torch.long, device="cpu")
        sums.index_add_(0, torch.from_numpy(indices[mode]), torch.from_numpy(words.view(np.int64)))
        found = sums.numpy().view(np.uint64)
    return _mix(found ^ after)


def _rounded(values: NDArray[np.float64]) -> Words:
    """Return numbers with the 24 leading binary digits as whole numbers above 0.

    Halves go to the even one, as in single precision.
    """
    bits = values.view(np.uint64)
    odd = (bits >> np.uint64(29)) & np.uint64(1)
    half = np.uint64((1 << 28) - 1)
    return ((bits + half + odd) >> np.uint64(29)) + np.uint64(1)


def _equal_before(words: Words) -> Words:
    """Return how many people before each one have the same words, shape (people,)."""
    order = np.lexsort(words)
    places = np.arange(len(order))
    ordered = words[:, order]
    begins = np.ones(len(order), bool)
    begins[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(0)
    found = np.empty(len(order), np.uint64)
    found[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return found


def words_of_cells(shape: tuple[int, ...], mode: int, *, key: str) -> tuple[Words, Words]:
    """Return what entries of complete data are mixed with, before and after, in two halves.

    An exported encoder has them, so that it draws the noise that `normals_of_people` gives.

    Args:
        shape: Shape of the data; the number of people does not matter.
        mode: The mode of the people.
        key: The key of the numbers.

    Returns:
        Words of the cells of a person, shape (2, cells), and words for after the entries, (2,).
    """
    cells = _cells_of_person(shape, mode)
    halves = _words_of(key).reshape(2, 2)
    return np.stack([_mix_cells(cells, mode, before) for before, _ in halves]), halves[:, 1]


def _cells_of_person(shape: tuple[int, ...], mode: int) -> NDArray[np.int64]:
    """Return the places of all cells of one person, shape (order, cells)."""
    sizes = [1 if other == mode else size for other, size in enumerate(shape)]
    return np.indices(sizes).reshape(len(sizes), -1)


def _words_of(key: str) -> Words:
    """Return four words that follow from a text."""
    return np.frombuffer(hashlib.sha256(key.encode()).digest(), "<u8").astype(np.uint64)


def _mix_cells(cells: NDArray[np.int64], mode: int, before: np.uint64) -> Words:
    """Return a word for each cell, from its places in all modes but that of the people."""
    words = np.full(cells.shape[1], before)
    for other, places in enumerate(cells):
        if other != mode:
            words = _mix(words ^ places.astype(np.uint64))
    return words


def _observed(data: TensorData) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the cells and the values of all observed entries."""
    return data.cells.cpu().numpy(), _as_doubles(data.entries)


def _without_zeros(data: TensorData) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the cells and the values of all entries but zeros; missing ones are NaN."""
    if data.indices is None or not data.zeros_count:
        stored = data.to_dense().values
        indices = (stored != 0).nonzero().mT
        values = stored[tuple(indices)]
    else:
        kept = data.values != 0
        indices, values = data.indices[:, kept], data.values[kept]
    found = _as_doubles(values)
    found[np.isnan(found)] = np.nan  # all of them are the same
    return indices.cpu().numpy(), found


def _hash_people(
    cells: NDArray[np.int64], values: NDArray[np.float64], people: int, mode: int, key: Words
) -> Words:
    """Return 128 bits for each person, shape (2, people): sums of hashes of single entries.

    Sums do not depend on the order. A loop over people, each with SHA-256 and a generator of their
    own, takes some 40 times as long.

    Args:
        cells: Where their entries are, shape (order, count).
        values: The entries, shape (count,).
        people: How many people there are.
        mode: The mode of the people.
        key: Four words. Without them, nobody can find entries whose sums are equal.
    """
    bits = values.view(np.uint64)
    order = np.argsort(cells[mode], kind="stable")
    counts = np.bincount(cells[mode], minlength=people)
    present = counts > 0
    begins = (np.cumsum(counts) - counts)[present]
    found = np.zeros((2, people), np.uint64)
    if not len(values):
        return found
    for half, (before, after) in enumerate(key.reshape(2, 2)):
        words = _mix(_mix(_mix_cells(cells, mode, before) ^ bits) ^ after)
        found[half, present] = np.add.reduceat(words[order], begins)
    return found


def _mix(words: Words) -> Words:
    """Return words of which each bit depends on all bits of a given one: a step of splitmix64."""
    words = words + STEP
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))


def _as_doubles(entries: Tensor) -> NDArray[np.float64]:
    """Return entries in double precision, without negative zeros, which are equal to zero."""
    found: NDArray[np.float64] = entries.double().cpu().numpy() + 0.0
    return found
