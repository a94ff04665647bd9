import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from parafair.dependence.whitening import Standardized
from parafair.guarantees import exposure
from parafair.guarantees.exposure import Exposure, exposure_to_holder, leave_one_out_vote
from tests.guarantees.conftest import people
from tests.reference.mixtures import densities


def sample(*sizes, columns=2, seed=0):
    rows, labels = people(*sizes, columns=columns, seed=seed)
    codes = np.unique(labels, return_inverse=True)[1]
    return torch.from_numpy(rows), torch.from_numpy(codes)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_exposure_to_the_holder_is_that_of_brute_force():
    rows, codes = sample(12, 8, columns=1)
    found = exposure_to_holder(rows, codes, draws=10**6, generator=generator())
    for person in range(20):
        points = np.arange(-8, 8, 0.01)[:, None] + rows[person].numpy()
        weights = np.exp(-((points[:, 0] - float(rows[person])) ** 2) / 2)
        both = densities(points, rows.numpy(), codes.numpy(), np.eye(1))
        expected = np.average(both.max(1) / both.sum(1), weights=weights)
        # 64 draws of each person, of a quantity between 0.5 and 1.
        assert found[person] == pytest.approx(expected, abs=0.07)


def test_one_exposed_person_is_found_in_a_safe_crowd():
    rows = np.tile(np.random.default_rng(0).standard_normal((50, 2)), (2, 1))
    codes = np.repeat([0, 1], 50)
    rows[0] += 30
    values = exposure_to_holder(
        torch.from_numpy(rows), torch.from_numpy(codes), draws=10_000, generator=generator()
    )
    found = Exposure.of("group", "b", 0.5, values)
    assert found.values.argmax() == 0
    assert found.largest == pytest.approx(1)
    assert found.percentile < 0.7


def test_the_vote_is_that_of_brute_force():
    rows, codes = sample(15, 10, 12)
    vote = leave_one_out_vote(rows, codes, generator())
    white = Standardized.of(rows).whitened.numpy()
    squares = cdist(white, white, "sqeuclidean")
    above = np.sort(squares[np.triu_indices(37, 1)])
    gamma = 1 / (2 * above[(len(above) - 1) // 2])  # the lower median
    best = -1
    for width in range(exposure.WIDTHS):
        kernel = np.exp(-gamma * 4**width * squares)
        np.fill_diagonal(kernel, 0)
        votes = np.zeros((37, 3))
        for i in range(37):
            for g in range(3):
                others = [j for j in range(37) if j != i and codes[j] == g]
                votes[i, g] = kernel[i, others].mean()
        shares = votes / votes.sum(1, keepdims=True)
        right = shares.argmax(1) == codes.numpy()
        above = np.mean([right[codes.numpy() == g].mean() for g in range(3)]) - 1 / 3
        gain = max(above, -above / 2)
        if gain > best + 1e-12:
            best, expected = gain, shares.max(1)
    assert vote.advantage == pytest.approx(best)
    np.testing.assert_allclose(vote.values, expected, rtol=1e-6)


def test_pairs_across_groups_are_found_by_the_vote():
    places = np.random.default_rng(0).standard_normal((60, 3))
    rows = torch.from_numpy(np.tile(places, (2, 1)))
    vote = leave_one_out_vote(rows, torch.arange(2).repeat_interleave(60), generator())
    assert vote.advantage > 0.4  # turned around
    assert vote.by_chance < 0.3


def test_random_groups_are_at_chance():
    rows, _ = sample(300)
    random = np.random.default_rng(1)
    codes = torch.from_numpy(random.integers(0, 2, 300))
    vote = leave_one_out_vote(rows, codes, generator())
    assert vote.advantage <= vote.by_chance


def test_many_people_are_asked_in_part(monkeypatch):
    rows, codes = sample(40, 30)
    monkeypatch.setattr(exposure, "MOST_ASKED", {"cpu": 20})
    monkeypatch.setattr(exposure, "MOST_PERMUTED", 50)
    vote = leave_one_out_vote(rows, codes, generator())
    assert np.isfinite(vote.values).sum() == 20
    assert vote.by_chance is None
    assert Exposure.of("group", "a", 0.5, vote.values).largest <= 1


def test_equal_rows_do_not_matter():
    vote = leave_one_out_vote(torch.ones(10, 2).double(), torch.arange(10) % 2, generator())
    assert np.isfinite(vote.values).all()


def test_the_distribution_over_people_counts_everybody_once():
    values = np.array([0.5, 0.5 - 1e-12, 0.51, 0.75, 1.0, np.nan])
    found = Exposure.of("group", "b", 0.5, values)
    assert len(found.counts) == exposure.BINS
    assert sum(found.counts) == 5  # nobody asked about the last one
    assert (found.counts[0], found.counts[10], found.counts[-1]) == (3, 1, 1)
    assert Exposure.from_dict(found.to_dict()).counts == found.counts
