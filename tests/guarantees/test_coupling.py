from math import erf, sqrt

import numpy as np
import pytest
import torch

from parafair.guarantees import coupling
from parafair.guarantees.advantage import best_advantage
from parafair.guarantees.coupling import coupling_bound, pair_bound
from tests.guarantees.conftest import people
from tests.reference import mixtures


def with_codes(*sizes, **settings):
    rows, labels = people(*sizes, **settings)
    return rows, np.unique(labels, return_inverse=True)[1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [(12, 12), (20, 5), (6, 9, 12), (5, 5, 5, 5), (2,) * 12])
def test_it_is_never_below_the_exact_value(sizes, seed):
    rows, codes = with_codes(*sizes, columns=1, seed=seed)
    for scale in (0.1, 0.5, 2.0):
        exact = mixtures.advantage(scale * rows, codes, np.eye(1), 0.01)
        assert coupling_bound(scale * rows, codes) >= exact - 1e-9


@pytest.mark.parametrize("sizes", [(12, 12), (20, 5), (15, 14)])
def test_every_way_to_couple_is_valid(sizes, monkeypatch):
    rows, codes = with_codes(*sizes, columns=2)
    exact = mixtures.advantage(rows, codes, np.eye(2), 0.1)
    best = coupling_bound(rows, codes)
    monkeypatch.setattr(coupling, "EXACT_PAIRS", 0)
    monkeypatch.setattr(coupling, "PROGRAM_PAIRS", 0)
    monkeypatch.setattr(coupling, "BLOCK", 5)
    assert exact <= best <= coupling_bound(rows, codes) + 1e-9
    monkeypatch.setattr(coupling, "MATCHED_PEOPLE", 0)
    assert best <= coupling_bound(rows, codes) + 1e-9


def test_one_pair_has_a_closed_form():
    rows, codes = np.array([[0.0], [1.5]]), np.array([0, 1])
    assert coupling_bound(rows, codes) == pytest.approx(erf(1.5 / sqrt(8)) / 2)


def test_pairs_within_a_quarter_of_the_noise_give_a_leakage_of_a_twentieth():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    both = np.concatenate([rows, rows + np.array([0.25, 0, 0])])
    assert coupling_bound(both, np.repeat([0, 1], 50)) == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize("sizes", [(3000, 3000), (2500, 1200)])
def test_many_people_with_equal_distributions_are_found(sizes):
    points = np.random.default_rng(0).standard_normal((max(sizes), 2))
    groups = [points[:size] for size in sizes]
    random = np.random.default_rng(1)
    shuffled = [random.permutation(group) for group in groups]
    found = pair_bound(*shuffled)
    assert found < (1e-12 if sizes[0] == sizes[1] else 0.2)


def test_the_order_of_groups_and_people_does_not_matter():
    rows, codes = with_codes(9, 14, 6)
    expected = coupling_bound(rows, codes)
    order = np.random.default_rng(0).permutation(len(rows))
    assert coupling_bound(rows[order], codes[order]) == pytest.approx(expected)
    assert coupling_bound(rows, np.array([2, 0, 1])[codes]) == pytest.approx(expected)


def test_many_groups_are_coupled_with_the_largest(monkeypatch):
    rows, codes = with_codes(9, 14, 6, 8)
    tree = coupling_bound(rows, codes)
    monkeypatch.setattr(coupling, "MOST_PAIRED", 2)
    star = coupling_bound(rows, codes)
    z, c = torch.from_numpy(rows), torch.from_numpy(codes)
    exact = best_advantage(z, c, draws=2000, delta=0.5, generator=torch.Generator().manual_seed(0))
    assert exact.estimate <= tree + 0.02
    assert tree <= star + 1e-12
