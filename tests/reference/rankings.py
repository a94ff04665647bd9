"""Recommendations and ranking measures, one person and one item at a time."""

from math import log2


def recommended(predictions, rated, k):
    """The items of one person with the highest predictions that are not rated, the best first."""
    left = [item for item in range(len(predictions)) if item not in rated]
    return sorted(left, key=lambda item: (-predictions[item], item))[:k]


def ndcg(order, relevant, k):
    """NDCG of one list, with gains of 1 for relevant items."""
    found = sum(1 / log2(place + 2) for place, item in enumerate(order[:k]) if item in relevant)
    best = sum(1 / log2(place + 2) for place in range(min(k, len(relevant))))
    return found / best


def recall(order, relevant, k):
    """The share of the relevant items that are among the first k."""
    return sum(item in relevant for item in order[:k]) / len(relevant)


def average_precision(order, relevant):
    """The mean, over the relevant items, of the precision of the list that ends with them."""
    total, hits = 0.0, 0
    for place, item in enumerate(order):
        if item in relevant:
            hits += 1
            total += hits / (place + 1)
    return total / len(relevant)
