"""Shared places by trying all of them."""

import numpy as np


def partitions(count):
    """Yield the places of `count` people in every possible way."""
    if count == 0:
        yield []
        return
    for rest in partitions(count - 1):
        for place in range(max(rest, default=-1) + 2):
            yield [*rest, place]


def best_places(points, groups, *, leakage):
    """Return the places of least cost at which the best guess gains at most `leakage`."""
    best, least = None, np.inf
    sizes = np.bincount(groups)
    for found in partitions(len(groups)):
        places = np.array(found)
        right, cost = 0.0, 0.0
        for place in range(places.max() + 1):
            inside = places == place
            right += max(np.bincount(groups[inside], minlength=len(sizes)) / sizes)
            cost += np.square(points[inside] - points[inside].mean(0)).sum()
        if (right - 1) / len(sizes) <= leakage + 1e-12 and cost < least:
            best, least = places, cost
    return best
