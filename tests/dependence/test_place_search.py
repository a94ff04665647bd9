import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from parafair.dependence.place_search import improve_places
from tests.dependence.test_shared_places import advantage, cost, people
from tests.reference.places import best_places


def improved(points, groups, places, leakage):
    sizes = np.bincount(groups)
    weights = 1 / (len(sizes) * sizes)
    accuracy = 1 / len(sizes) + leakage
    return improve_places(points, groups, places, weights=weights, accuracy=accuracy)


@pytest.mark.parametrize("leakage", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("sizes", [(40, 40), (20, 60), (31, 47), (25, 30, 41), (3, 60)])
def test_places_cost_less_and_reveal_no_more_than_allowed(sizes, leakage):
    points, groups = people(sizes)
    start = np.zeros(len(groups), np.intp)
    places = improved(points, groups, start, leakage)
    assert advantage(places, groups) <= leakage + 1e-9
    assert cost(points, places) < cost(points, start)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (2, 3, 3)])
def test_a_few_people_are_nearly_as_well_placed_as_possible(sizes, seed):
    points, groups = people(sizes, seed=seed, columns=2)
    places = improved(points, groups, np.zeros(len(groups), np.intp), 0.13)
    least = best_places(points, groups, leakage=0.13)
    # A search among neighbors may end in a local optimum.
    assert cost(points, places) <= 1.6 * cost(points, least) + 1e-9


def test_two_equal_groups_come_near_the_best_partial_matching():
    points, groups = people((60, 60))
    one, two = points[groups == 0], points[groups == 1]
    alone = 6  # of each group, which is a leakage of 0.05
    # Whoever is matched with one of these columns or rows at no cost is alone.
    costs = np.zeros((66, 66))
    costs[:60, :60] = cdist(one, two, "sqeuclidean") / 2
    costs[60:, 60:] = 1e6
    assert alone == len(costs) - 60
    least = costs[linear_sum_assignment(costs)].sum()
    pairs = np.empty(120, np.intp)
    pairs[groups == 0], pairs[groups == 1] = np.arange(60), np.arange(60)
    places = improved(points, groups, pairs, 0.05)
    assert cost(points, places) <= 1.02 * least


def test_good_places_stay():
    points = np.repeat(np.arange(5.0), 2)[:, None]
    groups, places = np.arange(10) % 2, np.arange(10) // 2
    assert (improved(points, groups, places, 0.0) == places).all()
