"""Counts and events follow their models, and the groups differ in them."""

import numpy as np
import pytest

from parafair import FairCP, audit, datasets
from parafair.datasets import discrete

BOTH = pytest.mark.parametrize("load", [datasets.counts, datasets.events])


@BOTH
def test_groups_have_equal_size_and_differ(load):
    data = load(0)
    active = data.sensitive_features == "active"
    assert active.sum() == 100
    assert data.tensor.shape == (200, 30, 30)
    assert data.modes == ("person", "mode_1", "mode_2")
    assert data.tensor[active].mean() > 1.3 * data.tensor[~active].mean()
    model = FairCP(3, method="none", tol=1e-3).fit(data.tensor)
    found = audit(
        model.embedding_,
        sensitive_features=data.sensitive_features,
        attackers=["linear"],
        permutations=1,
    )
    assert found.above_chance


@BOTH
def test_seed_size_and_order(load):
    one, two, three = (load(seed, shape=(7, 3, 2, 4), rank=2) for seed in (0, 0, 1))
    assert np.array_equal(one.tensor, two.tensor)
    assert not np.array_equal(one.tensor, three.tensor)
    assert one.tensor.shape == (7, 3, 2, 4)
    assert one.sensitive_features.tolist() == ["quiet"] * 3 + ["active"] * 4


def test_predictors_have_low_rank_and_the_stated_moments():
    predictors, _ = discrete._predictors(3, (40, 9, 8), 2, -1.0, 2.0)
    assert (predictors.mean(), predictors.std()) == pytest.approx((-1, 2))
    singular = np.linalg.svd(predictors.reshape(40, -1), compute_uv=False)
    assert singular[2] > 1e-6 * singular[0]  # two components and the intercept
    assert singular[3] < 1e-12 * singular[0]


def test_counts_are_poisson_with_the_rates_of_the_model():
    predictors, _ = discrete._predictors(5, (400, 20, 20), 3, *discrete.LOG_RATES)
    rates, found = np.exp(predictors), datasets.counts(5, shape=(400, 20, 20)).tensor
    assert np.array_equal(found, found.round())
    assert found.min() == 0
    # Sums over many entries are within five standard deviations: of the counts, of their squares.
    standard = (found - rates) / np.sqrt(rates)
    assert abs(standard.mean()) < 5 / found.size**0.5
    assert np.mean(standard**2) == pytest.approx(1, abs=0.03)


def test_events_have_the_probabilities_of_the_model():
    predictors, _ = discrete._predictors(5, (400, 20, 20), 3, *discrete.LOG_ODDS)
    odds, found = 1 / (1 + np.exp(-predictors)), datasets.events(5, shape=(400, 20, 20)).tensor
    assert set(np.unique(found)) == {0, 1}
    for low in np.arange(0, 1, 0.1):
        some = (odds >= low) & (odds < low + 0.1)
        error = 5 * 0.5 / some.sum() ** 0.5
        assert found[some].mean() == pytest.approx(odds[some].mean(), abs=error)


def test_inflation_adds_zeros_to_the_same_counts():
    plain, inflated = (datasets.counts(1, inflation=share).tensor for share in (0, 0.3))
    kept = inflated > 0
    assert np.array_equal(plain[kept], inflated[kept])
    assert (inflated[plain > 0] == 0).mean() == pytest.approx(0.3, abs=0.01)
    assert not datasets.counts(1, inflation=1).tensor.any()


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (5,)}, r"shape must have at least 2 modes .* got \(5,\)"),
        ({"shape": (1, 4)}, r"at least 2 people in the first, got \(1, 4\)"),
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_sizes_are_refused(load, options, message):
    with pytest.raises(ValueError, match=message):
        load(**options)


def test_a_share_outside_of_0_and_1_is_refused():
    with pytest.raises(ValueError, match="inflation must be .* got 1.5"):
        datasets.counts(inflation=1.5)


@BOTH
def test_data_that_does_not_fit_into_memory_is_refused(load):
    with pytest.raises(MemoryError, match="choose a smaller shape or rank"):
        load(shape=(10**6, 10**6, 10**6))
