"""Five kinds of data on which fits are compared, with groups that matter or that do not."""

import numpy as np


def _tensor(people, random, sizes=(20, 15), noise=0.1):
    others = [random.standard_normal((size, people.shape[1])) for size in sizes]
    exact = np.einsum("ir,jr,kr->ijk", people, *others)
    error = random.standard_normal(exact.shape)
    return exact + noise * np.linalg.norm(exact) / np.linalg.norm(error) * error


def mean_shift(random, n):
    """A fifth of the people has other means."""
    groups = np.arange(n) < n // 5
    rows = random.standard_normal((n, 4)) + groups[:, None] * random.standard_normal(4)
    return _tensor(rows, random), groups


def equal_moments(random, n):
    """Normal against two-valued coordinates, with the same means and variances."""
    groups = np.arange(n) % 2 == 0
    rows = np.where(
        groups[:, None], random.standard_normal((n, 4)), random.choice([-1.0, 1.0], (n, 4))
    )
    return _tensor(rows, random), groups


def three_groups(random, n):
    """Three groups with means of their own."""
    groups = random.integers(0, 3, n)
    rows = random.standard_normal((n, 4)) + random.standard_normal((3, 4))[groups]
    return _tensor(rows, random), groups


def zero_inflated(random, n):
    """Counts of which most are zero: many people have the same entries."""
    groups = random.random(n) < 0.3
    rate = np.where(groups, 0.25, 0.12)[:, None, None]
    counts = random.poisson(1, (n, 19, 8)) * (random.random((n, 1, 8)) < rate)
    return np.log1p(counts), groups


def profiles(random, n):
    """People of a dozen exact types, which the groups have in other shares."""
    groups = np.arange(n) % 2
    types = random.standard_normal((12, 4))
    which = np.where(groups == 1, random.integers(0, 12, n), random.integers(0, 8, n))
    return _tensor(types[which], random, noise=0.0), groups


KINDS = (mean_shift, equal_moments, three_groups, zero_inflated, profiles)


def draw(kind, seed, n=150, *, independent=False):
    """Return a tensor, a feature and a rank; an independent feature is drawn at random."""
    random = np.random.default_rng(seed)
    tensor, groups = kind(random, n)
    if independent:
        groups = random.permutation(groups)
        if kind in (mean_shift, zero_inflated):
            return tensor, np.where(groups, "F", "M"), 4
    return tensor, groups, 4
