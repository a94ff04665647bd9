from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.kernels import Delta, Gaussian
from parafair.dependence.scales import Level
from parafair.dependence.weights import (
    Weights,
    distinct_rows,
    feature_factors,
    sensitive_sample,
)
from parafair.testing import example_groups, example_rows
from tests.reference.criterion import weights_of


def weights_for(features, places=None):
    sensitive = SensitiveFeatures.of(features)
    n = len(sensitive)
    places = torch.arange(n)[None] if places is None else places
    return Weights.of(feature_factors(sensitive), places, torch.ones_like(places, dtype=torch.bool))


def matrix(weights, chunk=0, feature=0):
    columns, coefficients = weights.columns[chunk], weights.coefficients[chunk, feature]
    found = columns * coefficients @ columns.mT
    return found - torch.diag(found.diagonal())


GROUPS = np.array(["a", "b", "b", "c", "a", "b", "b", "b", "a", "c"])


@pytest.mark.parametrize("features", [GROUPS, GROUPS == "b"], ids=["three", "two"])
def test_weights_of_groups_are_those_of_the_formula(features):
    codes = torch.from_numpy(np.unique(features, return_inverse=True)[1]).double()[:, None]
    torch.testing.assert_close(matrix(weights_for(features)), weights_of(Delta()(codes, codes)))


def test_weights_of_numbers_are_those_of_the_formula():
    numbers = example_rows(40, 1, seed=0)
    standard = (numbers - numbers.mean()) / numbers.std(correction=0)
    found, exact = (
        matrix(weights_for(numbers.numpy())),
        weights_of(Gaussian(0.5)(standard, standard)),
    )
    # Directions that weigh less than 1e-4 of the largest are left out.
    torch.testing.assert_close(found, exact, rtol=0, atol=2e-3 * float(exact.abs().max()))


def test_the_mean_over_all_permutations_is_zero_for_every_kernel():
    weights = weights_for(np.array(["a", "a", "b", "c", "b", "b"]))
    rows = example_rows(6, 2, seed=1)
    gram = torch.exp(-torch.cdist(rows, rows)).fill_diagonal_(0)
    values = []
    for order in permutations(range(6)):
        shuffled = gram[list(order)][:, list(order)]
        sums = ((shuffled @ weights.columns[0]) * weights.columns[0]).sum(0)
        values.append(float(weights.statistic(sums[None, None])[0, 0, 0]))
    assert np.mean(values) == pytest.approx(0, abs=1e-12)
    assert np.std(values) > 0.01


def test_the_deviation_is_that_over_permutations():
    weights = weights_for(np.arange(50) < 15)
    rows = example_rows(50, 3, seed=0)
    gram = torch.exp(-0.2 * torch.cdist(rows, rows).square())
    generator = torch.Generator().manual_seed(1)
    values = []
    for _ in range(3000):
        order = torch.randperm(50, generator=generator)
        values.append(float((matrix(weights)[order][:, order] * gram).sum()))
    assert np.std(values) == pytest.approx(float(weights.deviation(Level.of(gram))), rel=0.05)


def test_a_kernel_without_neighbors_counts_as_one_with_a_neighbor_each():
    # Similarities of 0 and 1: their mean square is the share of neighbors.
    weights = weights_for(np.arange(40) % 2)
    few, one = Level(1e-4, 0.0, 1e-4), Level(1 / 40, 0.0, 1 / 40)
    torch.testing.assert_close(weights.deviation(few), weights.deviation(one))
    torch.testing.assert_close(weights.size(few), weights.size(one))


def test_a_wide_kernel_counts_as_it_is():
    # All people are similar, and differ by little.
    weights = weights_for(np.arange(40) % 2)
    wide, wider = Level(1e-4, 0.0, 0.9), Level(1e-6, 0.0, 0.99)
    torch.testing.assert_close(weights.deviation(wide), 10 * weights.deviation(wider))


def test_several_columns_are_weighed_one_by_one_and_together():
    table = pd.DataFrame(
        {"one": list("aabb") * 5, "two": list("abab") * 5, "age": np.arange(20) ** 2}
    )
    assert len(feature_factors(SensitiveFeatures.of(table))) == 4
    alone = matrix(weights_for(table[["one"]]))
    torch.testing.assert_close(matrix(weights_for(table), feature=0), alone)
    sample, kernel = sensitive_sample(SensitiveFeatures.of(table[["one", "two"]]))
    joint = weights_of(kernel(sample, sample))
    torch.testing.assert_close(matrix(weights_for(table[["one", "two"]]), feature=2), joint)


def test_many_groups_keep_weights_of_their_own():
    groups = np.repeat(np.arange(100), 3).astype(str)
    same = torch.from_numpy(groups[:, None] == groups).double()
    torch.testing.assert_close(matrix(weights_for(groups)), weights_of(same))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_very_few_people_have_finite_weights(n):
    weights = weights_for(np.arange(n) % 2)
    level = Level(0.1, 0.01, 0.5)
    for part in (*vars(weights).values(), weights.deviation(level), weights.size(level)):
        assert torch.isfinite(part).all()


def test_a_group_missing_from_a_chunk_has_no_weight_there():
    places = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])
    weights = weights_for(np.array(["a", "b", "a", "b", "a", "a", "a", "a"]), places)
    assert float(matrix(weights, 0).abs().sum()) > 0
    assert float(matrix(weights, 1).abs().sum()) == 0


def test_chunks_are_taken_with_all_their_parts():
    places = torch.arange(12).reshape(3, 4)
    weights = weights_for(example_groups(12, seed=3).numpy().ravel(), places)
    part = weights.take(slice(1, 3))
    assert {len(entry) for entry in vars(part).values()} == {2}
    assert torch.equal(part.columns, weights.columns[1:])


def test_distinct_rows_are_those_of_torch():
    sample = example_rows(200, 3, seed=0).round()
    distinct, places = distinct_rows(sample)
    expected, theirs = torch.unique(sample, dim=0, return_inverse=True)
    torch.testing.assert_close(distinct, expected)
    assert torch.equal(places, theirs)
