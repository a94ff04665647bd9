"""No model is below the limit, and some attain it."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from parafair.guarantees.limits import parity_limit
from tests.guarantees.conftest import TAUS, people, split

pytest.importorskip("ot", reason="needs parafair[limits]")


def best_model(rows, labels, classes):
    """The residual, largest total variation and best attacker's advantage of an embedding.

    The embedding is a class; the model gives everybody the mean row of the class.
    """
    model = np.zeros_like(rows)
    for value in np.unique(classes):
        model[classes == value] = rows[classes == value].mean(0)
    residual = np.linalg.norm(rows - model) / np.linalg.norm(rows)
    found = np.unique(classes, return_inverse=True)[1]
    groups = [np.bincount(found[labels == g], minlength=found.max() + 1) for g in np.unique(labels)]
    groups = [counts / counts.sum() for counts in groups]
    tau = max(np.abs(p - q).sum() / 2 for p, q in combinations(groups, 2))
    return residual, tau, (np.max(groups, 0).sum() - 1) / len(groups)


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_any_kind_averaged(seed):
    rows, labels = people(12, 12, seed=seed)
    limit = parity_limit(rows, sensitive_features=labels, taus=(0.0,))
    random = np.random.default_rng(seed)
    for _ in range(20):
        classes = np.empty(24, int)
        for label in ("g0", "g1"):
            classes[labels == label] = random.permutation(12)
        residual, tau, _ = best_model(rows, labels, classes)
        assert tau == 0
        assert residual >= limit.residual


@pytest.mark.parametrize("sizes", [(20, 20), (30, 12), (12, 11, 10), (20, 10, 12, 9)])
def test_clusters_with_and_without_regard_to_groups(sizes):
    rows, labels = people(*sizes, seed=8)
    limit = parity_limit(rows, sensitive_features=labels, taus=TAUS)
    random = np.random.default_rng(0)
    for clusters in (2, 4, 8, 16, 32):
        classes = KMeans(clusters, n_init=1, random_state=0).fit(rows).labels_
        # Part of the people get a class of their own group: a smaller residual, more leakage.
        for share in (0.0, 0.2, 0.6, 1.0):
            own = random.uniform(size=len(rows)) < share
            apart = np.where(own, 1000 * (labels == "g0") + 100 + np.arange(len(rows)), classes)
            residual, tau, advantage = best_model(rows, labels, apart)
            alone = parity_limit(rows, sensitive_features=labels, taus=min(tau, 1.0))
            bound = alone.residuals[0]
            assert residual >= bound
            assert residual >= limit.at(advantage)


@pytest.mark.parametrize("apart", [0, 1, 5, 11])
def test_the_best_pairs_averaged_attain_it(apart):
    rows, labels = people(12, 12, seed=16)
    x, y = split(rows, labels)
    # People who go to a column or row without cost keep a class, and a row, of their own.
    cost = np.zeros((12 + apart, 12 + apart))
    cost[:12, :12] = ((x[:, None] - y) ** 2).sum(-1)
    cost[12:, 12:] = 1e6
    chosen, partner = linear_sum_assignment(cost)
    classes = np.empty(24, int)
    classes[labels == "g0"] = chosen[:12]
    classes[labels == "g1"] = partner.argsort()[:12]
    residual, tau, advantage = best_model(rows, labels, classes)
    limit = parity_limit(rows, sensitive_features=labels, taus=tau)
    assert tau == pytest.approx(apart / 12)
    assert limit.residuals[0] == pytest.approx(residual, rel=1e-9)
    assert limit.at(advantage) == pytest.approx(residual, rel=1e-9)


def test_removing_group_means_attains_it_for_groups_of_one_shape():
    random = np.random.default_rng(0)
    shape = random.standard_normal((10, 4))
    shift = np.array([2, 0, 1, 0])
    rows, model = np.vstack([shape, shape + shift]), np.vstack([shape, shape]) + shift / 2
    residual = np.linalg.norm(rows - model) / np.linalg.norm(rows)
    limit = parity_limit(rows, sensitive_features=np.repeat(["a", "b"], 10))
    assert limit.residual == pytest.approx(residual, rel=1e-9)
