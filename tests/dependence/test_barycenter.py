from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from parafair.dependence import barycenter as module
from parafair.dependence.barycenter import barycenter, couple
from tests.reference.transport import best_permutation, coupling_cost


def example(*sizes, columns=3, seed=0):
    """Points of groups with different means and spreads, in random order, and their groups."""
    random = np.random.default_rng(seed)
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    points = random.standard_normal((len(groups), columns))
    return points * (1 + 0.4 * groups[:, None]) + 0.7 * groups[:, None], groups


def split(points, groups):
    return [points[groups == group] for group in range(groups.max() + 1)]


def ordered(rows):
    return rows[np.lexsort(rows.T)]


def check_masses(coupling, groups):
    """All people are matched, each with the mass of one of the group."""
    assert coupling.masses.sum() == pytest.approx(1)
    assert (coupling.masses > 0).all()
    for group, column in enumerate(coupling.people.T):
        people = np.flatnonzero(groups == group)
        found = np.bincount(column, coupling.masses, minlength=len(groups))
        expected = np.where(groups == group, 1 / len(people), 0)
        np.testing.assert_allclose(found, expected, atol=1e-9 / len(people))


def test_two_groups_of_equal_size_are_paired_by_the_best_permutation():
    points, groups = example(6, 6)
    moved = barycenter(points, groups)
    one, two = split(points, groups)
    cost = np.square(moved - points).sum(1).mean()
    assert cost == pytest.approx(best_permutation(one, two) / 4)
    np.testing.assert_array_equal(*map(ordered, split(moved, groups)))


def test_many_people_in_equal_groups_are_an_assignment():
    points, groups = example(150, 150, columns=6)
    moved, (one, two) = barycenter(points, groups), split(points, groups)
    first, second = linear_sum_assignment(cdist(one, two, "sqeuclidean"))
    expected = (one[first] + two[second]) / 2
    np.testing.assert_allclose(moved[groups == 0], expected, atol=1e-12)
    np.testing.assert_allclose(moved[groups == 1][second], expected, atol=1e-12)


@pytest.mark.parametrize(
    "sizes", [(3, 7), (6, 4), (1, 9), (2, 12), (5, 6, 7), (2, 1, 8), (3, 4, 3, 2)]
)
def test_other_sizes_cost_what_the_linear_program_does(sizes):
    for seed in range(3):
        points, groups = example(*sizes, seed=seed)
        coupling = couple(points, groups)
        assert coupling.exact
        assert coupling.cost(points) == pytest.approx(coupling_cost(split(points, groups)))
        check_masses(coupling, groups)


@pytest.mark.parametrize("sizes", [(60, 240), (130, 170)])
def test_the_cost_is_that_of_a_network_simplex(sizes):
    ot = pytest.importorskip("ot")
    points, groups = example(*sizes, columns=5)
    coupling = couple(points, groups)
    one, two = split(points, groups)
    weights = [np.full(size, 1 / size) for size in sizes]
    expected = ot.emd2(*weights, cdist(one, two, "sqeuclidean")) * coupling.shares.prod()
    assert coupling.exact
    assert coupling.cost(points) == pytest.approx(expected, rel=1e-9)
    check_masses(coupling, groups)


def test_a_draw_has_the_distribution_of_the_coupling():
    points, groups = example(4, 6)
    coupling = couple(points, groups)
    expected = coupling.masses @ coupling.means(points)
    draws = np.stack([coupling.means(points)[coupling.draw(seed)] for seed in range(4000)])
    for group in range(2):
        mean = draws[:, groups == group].mean((0, 1))
        # Four standard errors of a mean over 4000 draws of people with spread about 1.
        np.testing.assert_allclose(mean, expected, atol=4 / np.sqrt(4000))
    cost = np.square(draws - points).sum(-1).mean()
    assert cost == pytest.approx(coupling.cost(points), rel=0.03)


def test_everybody_draws_a_match_of_their_own():
    points, groups = example(7, 11, 5)
    coupling = couple(points, groups)
    drawn = coupling.draw(3)
    np.testing.assert_array_equal(coupling.people[drawn, groups], np.arange(len(groups)))
    np.testing.assert_array_equal(drawn, coupling.draw(3))
    assert (drawn != coupling.draw(4)).any()


def test_three_groups_of_equal_size_get_the_same_rows():
    points, groups = example(3, 3, 3, columns=2)
    moved = barycenter(points, groups)
    one, *others = map(ordered, split(moved, groups))
    for other in others:
        np.testing.assert_array_equal(one, other)
    x, y, z = split(points, groups)
    cheapest = min(
        np.mean([np.var([x[i], y[a[i]], z[b[i]]], axis=0).sum() for i in range(3)])
        for a in permutations(range(3))
        for b in permutations(range(3))
    )
    assert np.square(moved - points).sum(1).mean() <= 1.02 * cheapest


@pytest.mark.parametrize("sizes", [(40, 40, 40), (30, 40, 50)])
def test_more_groups_than_a_program_takes_are_near_the_optimum(sizes, monkeypatch):
    points, groups = example(*sizes)
    best = couple(points, groups).cost(points)
    monkeypatch.setattr(module, "LARGEST_PROGRAM", 0)
    coupling = couple(points, groups)
    assert not coupling.exact
    # Measured: at most 4 % above the optimum; unmatched groups cost three times as much.
    assert coupling.cost(points) < 1.06 * best
    check_masses(coupling, groups)


@pytest.mark.parametrize("sizes", [(90, 90), (70, 113), (100, 3), (40, 61, 7)])
def test_chunks_give_all_groups_the_same_masses(sizes, monkeypatch):
    points, groups = example(*sizes)
    whole = couple(points, groups).cost(points)
    monkeypatch.setattr(module, "CHUNK_PEOPLE", 50)
    monkeypatch.setattr(module, "FEWEST_OF_A_GROUP", 4)
    coupling = couple(points, groups, seed=1)
    check_masses(coupling, groups)
    assert not coupling.exact
    assert whole < coupling.cost(points) < 2 * whole
    if sizes == (90, 90):
        moved = barycenter(points, groups)
        np.testing.assert_array_equal(*map(ordered, split(moved, groups)))


def test_chunks_are_never_larger_than_agreed(monkeypatch):
    sizes = []
    inner = module._couple
    monkeypatch.setattr(
        module, "_couple", lambda x, *rest: sizes.append(sum(map(len, x))) or inner(x, *rest)
    )
    monkeypatch.setattr(module, "CHUNK_PEOPLE", 100)
    couple(*example(900, 13, columns=1))
    assert len(sizes) == 10
    assert max(sizes) <= 100 + module.FEWEST_OF_A_GROUP


def test_one_person_far_away_does_not_blur_the_others():
    points, groups = example(5, 8)
    points[np.flatnonzero(groups == 1)[0]] = 1e7
    coupling = couple(points, groups)
    expected = coupling_cost(split(points, groups))
    assert coupling.cost(points) == pytest.approx(expected, rel=1e-12)
    near = (points[coupling.people] < 1e6).all((1, 2))
    spread = np.square(points[coupling.people[near, 0]] - points[coupling.people[near, 1]]).sum(1)
    assert coupling.masses[near] @ spread < 10


@pytest.mark.parametrize("sizes", [(1, 1), (1, 40), (2, 40), (1, 2, 3), (1,) * 100, (5,) * 5])
@pytest.mark.parametrize("kind", ["constant", "duplicated", "apart", "tiny", "huge"])
def test_no_points_are_too_strange(sizes, kind):
    points, groups = example(*sizes)
    points = {
        "constant": np.ones_like(points),
        "duplicated": np.round(points),
        "apart": points + 1e6 * groups[:, None],
        "tiny": 1e-160 * points,
        "huge": 1e160 * points,
    }[kind]
    check_masses(couple(points, groups), groups)
    assert np.isfinite(barycenter(points, groups)).all()


def test_the_order_of_people_does_not_matter():
    points, groups = example(9, 14)
    order = np.random.default_rng(5).permutation(23)
    cost = couple(points[order], groups[order]).cost(points[order])
    assert cost == pytest.approx(couple(points, groups).cost(points))


def test_a_program_that_fails_leaves_a_valid_coupling(monkeypatch):
    class Failed:
        status = 4

    monkeypatch.setattr(module, "linprog", lambda *_, **__: Failed)
    points, groups = example(6, 9)
    coupling = couple(points, groups)
    assert not coupling.exact
    check_masses(coupling, groups)
