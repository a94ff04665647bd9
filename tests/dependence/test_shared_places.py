import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from parafair.dependence.shared_places import share_places


def advantage(places, groups):
    """What the best guess of the group from the place gains over chance."""
    count = groups.max() + 1
    right = 0.0
    for place in np.unique(places):
        shares = [np.mean(places[groups == g] == place) for g in range(count)]
        right += max(shares) / count
    return right - 1 / count


def people(sizes, seed=0, columns=3):
    random = np.random.default_rng(seed)
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return random.standard_normal((len(groups), columns)) + groups[:, None], groups


def cost(points, places):
    total = 0.0
    for place in np.unique(places):
        own = points[places == place]
        total += float(np.square(own - own.mean(0)).sum())
    return total


@pytest.mark.parametrize("leakage", [0.0, 0.02, 0.05, 0.3])
@pytest.mark.parametrize("sizes", [(40, 40), (20, 60), (31, 47), (25, 30, 41), (3, 90), (1, 30)])
def test_a_place_reveals_no_more_than_asked_for(sizes, leakage):
    points, groups = people(sizes)
    places = share_places(points, groups, leakage=leakage)
    assert places.shape == groups.shape
    assert advantage(places, groups) <= leakage + 1e-9


def test_groups_of_equal_size_form_the_best_pairs():
    points, groups = people((30, 30))
    places = share_places(points, groups, leakage=0.0)
    assert (np.bincount(places) == 2).all()
    apart = cdist(points[groups == 0], points[groups == 1], "sqeuclidean")
    least = apart[linear_sum_assignment(apart)].sum() / 2
    assert cost(points, places) == pytest.approx(least)


def test_a_group_that_is_a_multiple_is_shared_evenly():
    points, groups = people((20, 80))
    places = share_places(points, groups, leakage=0.0)
    assert (np.bincount(places[groups == 0]) == 1).all()
    assert (np.bincount(places[groups == 1]) == 4).all()


def test_more_leakage_moves_people_less():
    points, groups = people((50, 50))
    costs = [cost(points, share_places(points, groups, leakage=k)) for k in (0, 0.02, 0.05, 0.2)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0] / 2
    assert cost(points, share_places(points, groups, leakage=0.5)) == pytest.approx(0)


def test_sizes_without_a_common_divisor_need_some_leakage():
    points, groups = people((31, 47))
    exact = share_places(points, groups, leakage=0.0)
    assert len(np.unique(exact)) == 1
    assert len(np.unique(share_places(points, groups, leakage=0.05))) > 3


def test_many_people_are_shared_in_chunks(monkeypatch):
    monkeypatch.setattr("parafair.dependence.shared_places.CHUNK_PEOPLE", 100)
    points, groups = people((170, 90), columns=2)
    places = share_places(points, groups, leakage=0.03)
    assert advantage(places, groups) <= 0.03 + 1e-9
    again = share_places(points, groups, leakage=0.03)
    assert (places == again).all()


@pytest.mark.parametrize("points", [np.zeros((20, 2)), np.full((20, 1), 1e200)])
def test_equal_points_and_large_ones(points):
    groups = np.arange(20) % 2
    assert advantage(share_places(points, groups, leakage=0.0), groups) == pytest.approx(0)
