"""Rows of new people from an exported encoder. It needs NumPy, not parafair."""

from statistics import NormalDist

import numpy as np


def embed(file, entries):
    """Return one row per person, with noise; people first, all entries there."""
    part = np.load(file)
    assert part["format"] == 1, "this file needs another reader"
    x = np.asarray(entries, np.float64).reshape(len(entries), -1) + 0.0  # no negative zeros
    assert np.isfinite(x).all(), "an entry is missing"
    z = (x - part["mean"]) @ part["weights"] + part["constant"]
    hidden = z @ part["hidden"] + part["bias"]
    silu = hidden * (1 + np.tanh(hidden / 2)) / 2
    rows = z @ part["skip"] + part["offset"] + silu @ part["output"]
    return rows + normal(x, part["cells"], part["last"], rows.shape[1]) @ part["noise"]


def normal(x, cells, last, count):
    """Return normal numbers that follow from the entries: the same row whenever it is asked for.

    The second of several people with equal entries, and further ones, have numbers of their own.
    """
    hashed = mix(mix(cells[:, None] ^ x.view(np.uint64)) ^ last[:, None, None]).sum(2)
    before = equal_before(hashed)
    first, second = np.where(before > 0, mix(hashed ^ mix(before)), hashed)[:, :, None]
    drawn = mix(mix(first + STEP * np.arange(1, count + 1, dtype=np.uint64)) ^ second)
    uniform = ((drawn >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.vectorize(NormalDist().inv_cdf, otypes=[float])(uniform)


def equal_before(hashed):
    """Return how many people before each one have the same entries."""
    _, which, counts = np.unique(hashed, axis=1, return_inverse=True, return_counts=True)
    order = np.argsort(which.ravel(), kind="stable")
    found = np.empty(len(order), np.uint64)
    found[order] = np.concatenate([np.arange(count, dtype=np.uint64) for count in counts])
    return found


STEP = np.uint64(0x9E3779B97F4A7C15)


def mix(words):
    """Return mixed words: a step of splitmix64."""
    words = words + STEP
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
