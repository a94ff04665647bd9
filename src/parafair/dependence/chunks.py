"""Chunks of people, within which all pairs are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parafair.data.sensitive import SensitiveFeatures

# Default number of people in a chunk. Chunks grow, up to MOST_GROWTH times, if they have fewer
# members of a group than FEWEST_OF_A_GROUP.
CHUNK_PEOPLE, MOST_GROWTH, FEWEST_OF_A_GROUP = 1000, 20, 20

# Chunks in a part. People change chunks within their part alone, so each of several processes can
# have whole parts, and the chunks do not depend on how many processes there are. The people of a
# part are near each other in the data, so a process reads few files beside its own.
PART_CHUNKS = 8


def chunk_count(sensitive: SensitiveFeatures, chunk_size: int) -> int:
    """Return the number of chunks of about this size.

    A handful of people cannot be distributed like everybody else. Their best places would be at
    the center of the others, which reveals them. So chunks grow if they have too few members of
    some group, up to a limit that keeps them fast.
    """
    n = len(sensitive)
    wanted, fewest = round(n / chunk_size), round(n / (MOST_GROWTH * chunk_size))
    rarest = min(
        (
            int(np.unique(column.values, return_counts=True)[1].min())
            for column in sensitive.columns
            if column.kind == "categorical"
        ),
        default=n,
    )
    return max(1, fewest, min(wanted, rarest // FEWEST_OF_A_GROUP))


def parts_of_chunks(chunks: int) -> NDArray[np.intp]:
    """Return the part of each chunk: one part, or as many as have at least `PART_CHUNKS`."""
    parts = max(1, chunks // PART_CHUNKS)
    found: NDArray[np.intp] = np.arange(chunks) * parts // chunks
    return found


def stratify(sensitive: SensitiveFeatures, chunks: int, deal: int = 0) -> tuple[Tensor, ...]:
    """Return the positions of the people in each chunk, which has its share of every group.

    People are sorted by categories, then by numbers, with ties in a fixed random order. They are
    assigned to the chunks in turn; with another deal, as many of them at a time as there are
    chunks in random order, but everybody stays in the same part.

    Args:
        sensitive: The features.
        chunks: Number of chunks.
        deal: 0, or the seed of another choice of people.
    """
    n = len(sensitive)
    if chunks == 1:
        return (torch.arange(n, device="cpu"),)
    part = parts_of_chunks(chunks)[np.arange(n) % chunks]
    columns = sorted(sensitive.columns, key=lambda column: column.kind != "categorical")
    drawn = np.random.default_rng(0).permutation(n)
    # The last key of lexsort is the primary one.
    order = drawn[np.lexsort([column.values[drawn] for column in reversed(columns)])]
    if part[:chunks].any():
        values = [column.values[order] for column in columns]
        order = _gather_parts(order, part, _strata(values, PART_CHUNKS * chunks))
    if deal:
        keys = np.random.default_rng(deal).random(n)
        order = order[np.lexsort((keys, part, np.arange(n) // chunks))]
    return tuple(torch.from_numpy(np.sort(order[chunk::chunks])) for chunk in range(chunks))


def _strata(values: Sequence[NDArray[Any]], least: int) -> NDArray[np.intp]:
    """Return the stratum of each person, of whom every part gets its share, shape (n,).

    At least so many people with equal features are a stratum. Others are, with those who follow.

    Args:
        values: The features of people who are sorted by them, one (n,) each.
        least: How many people are a stratum.
    """
    n = len(values[0])
    differs = np.zeros(n, bool)
    for own in values:
        differs[1:] |= own[1:] != own[:-1]
    run = np.cumsum(differs)
    found: NDArray[np.intp] = np.where(
        np.bincount(run)[run] >= least, run, n + np.arange(n) // least
    )
    return found


def _gather_parts(
    order: NDArray[np.intp], part: NDArray[np.intp], stratum: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return people in another order, in which those of a part are near each other in the data.

    Args:
        order: The people, sorted by their features, shape (n,).
        part: The part of each place in this order.
        stratum: The stratum of each place: its people may change places.
    """
    of_person = np.empty_like(part)
    of_person[order[np.lexsort((order, stratum))]] = part[np.lexsort((part, stratum))]
    found = np.empty_like(order)
    # Within a part, people are sorted by their features again.
    found[np.argsort(part, kind="stable")] = order[np.argsort(of_person[order], kind="stable")]
    return found
