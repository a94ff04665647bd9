"""Slow, obvious versions of Kamishima's terms, and of measures of predicted scores."""

from itertools import combinations

import numpy as np
import torch

SMALL = 1e-8


def predicted(factors, offsets=0.0):
    """Every predicted score of one model of three modes, shape (I, J, K)."""
    return torch.einsum("ir,jr,kr->ijk", *factors) + offsets


def by_group(scores, observed, groups):
    """The scores at the observed entries of each group of people, in order of the groups."""
    groups = np.asarray(groups)
    return [scores[groups == g][observed[groups == g]] for g in np.unique(groups)]


def variance(scores):
    """The variance with the constants of the original."""
    return (((scores - scores.mean()) ** 2).sum() + SMALL) / (len(scores) + SMALL)


def mean_matching(parts):
    pairs = [(a.mean() - b.mean()) ** 2 / 2 for a, b in combinations(parts, 2)]
    return sum(pairs) / len(pairs)


def bhattacharyya(parts):
    def distance(a, b):
        v, w = variance(a), variance(b)
        log = torch.log if isinstance(v, torch.Tensor) else np.log
        shape = log((v + w) / (2 * (v * w) ** 0.5)) / 2
        return shape + (a.mean() - b.mean()) ** 2 / (4 * (v + w))

    pairs = [distance(a, b) for a, b in combinations(parts, 2)]
    return sum(pairs) / len(pairs)


def mutual_information(parts):
    whole = torch.cat(parts) if isinstance(parts[0], torch.Tensor) else np.concatenate(parts)
    log = torch.log if isinstance(whole, torch.Tensor) else np.log
    within = sum(len(part) / len(whole) * log(variance(part)) for part in parts)
    return (log(variance(whole)) - within) / 2


def histogram_information(parts, edges):
    """Mutual information of group and bin, from counts in a loop."""
    places = [[sum(x > edge for edge in edges) for x in part] for part in parts]
    count, total = sum(map(len, parts)), 0.0
    for own in places:
        for place in range(len(edges) + 1):
            both = own.count(place) / count
            share = sum(other.count(place) for other in places) / count
            if both:
                total += both * np.log(both / (share * len(own) / count))
    return total
