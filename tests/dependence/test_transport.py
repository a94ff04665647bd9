from itertools import combinations

import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import transport
from tests.reference.transport import coupling_cost

pytest.importorskip("ot", reason="needs parafair[limits]")

MASSES = (0.1, 0.5, 0.9, 1.0)


def rows(size, shift=0.0, *, seed=0, columns=3):
    return torch.from_numpy(np.random.RandomState(seed).normal(size=(size, columns))) + shift


def pair_cost(x, y, mass):
    """The least cost of moving this mass, by a linear program."""
    p = len(x) / (len(x) + len(y))
    return coupling_cost([x.numpy(), y.numpy()], mass) / (p * (1 - p))


class TestBetween:
    @pytest.mark.parametrize("sizes", [(6, 6), (4, 9), (1, 5)])
    def test_lines_touch_the_cost_where_they_are_placed(self, sizes):
        x, y = rows(sizes[0], seed=1), rows(sizes[1], 0.5, seed=2)
        lines, _ = transport.between(x, y, MASSES, [(x, y)])
        for line, mass in zip(lines, MASSES, strict=True):
            assert line @ (1, mass) == pytest.approx(pair_cost(x, y, mass), rel=1e-6, abs=1e-8)

    @pytest.mark.parametrize("sample", [slice(0, 1), slice(0, 4), slice(3, 9)])
    def test_lines_found_from_anybody_are_below_the_cost_of_everybody(self, sample):
        x, y = rows(9, seed=3), rows(11, 0.5, seed=4)
        lines, _ = transport.between(x, y, MASSES, [(x[sample], y[sample]), (x[:2], y[5:])])
        for mass in np.linspace(0.05, 1, 15):
            assert (lines @ (1, mass)).max() <= pair_cost(x, y, mass) + 1e-7

    def test_even_strangers_give_a_bound(self):
        # Potentials of people who have nothing to do with the groups are made feasible too.
        x, y = rows(8, seed=5), rows(8, 0.5, seed=6)
        strangers = rows(5, 30.0, seed=7), rows(4, -20.0, seed=8)
        lines, _ = transport.between(x, y, MASSES, [strangers])
        for mass in MASSES:
            assert (lines @ (1, mass)).max() <= pair_cost(x, y, mass) + 1e-7

    def test_the_plan_moves_everybody(self):
        x, y = rows(4, seed=1), rows(6, 0.5, seed=2)
        _, (plan,) = transport.between(x, y, MASSES, [(x, y)])
        torch.testing.assert_close(plan.sum(1), torch.full((4,), 1 / 4).double())
        torch.testing.assert_close(plan.sum(0), torch.full((6,), 1 / 6).double())
        cost = torch.cdist(x, y).square()
        assert float((plan * cost).sum()) == pytest.approx(pair_cost(x, y, 1.0))

    def test_chunks_change_nothing(self, monkeypatch):
        x, y = rows(7, seed=1), rows(9, 0.5, seed=2)
        whole, _ = transport.between(x, y, MASSES, [(x, y)])
        monkeypatch.setattr(transport, "CHUNK", 10)
        np.testing.assert_allclose(transport.between(x, y, MASSES, [(x, y)])[0], whole, atol=1e-12)


def plans_between(groups):
    return {
        (g, h): transport.between(groups[g], groups[h], (1.0,), [(groups[g], groups[h])])[1][0]
        for g, h in combinations(range(len(groups)), 2)
    }


class TestAllGroups:
    groups = (rows(3, seed=1), rows(2, 1.0, seed=2), rows(4, -0.5, seed=3))
    shares = np.array([3, 2, 4]) / 9

    def test_coupling_solves_the_linear_program(self):
        lines, whole = transport.couple(self.groups, self.shares, MASSES)
        arrays = [group.numpy() for group in self.groups]
        for line, mass in zip(lines, MASSES, strict=True):
            assert line @ (1, mass) == pytest.approx(coupling_cost(arrays, mass), rel=1e-6)
            assert (lines @ (1, mass)).max() <= coupling_cost(arrays, mass) + 1e-7
        assert whole == pytest.approx(coupling_cost(arrays), rel=1e-6)

    def test_glued_plans_are_a_coupling_and_best_for_two_groups(self):
        best = transport.couple(self.groups, self.shares, (1.0,))[1]
        glued = transport.join_plans(self.groups, self.shares, plans_between(self.groups))
        assert best - 1e-9 <= glued < 1.2 * best
        two, shares = self.groups[:2], np.array([0.6, 0.4])
        expected = coupling_cost([group.numpy() for group in two])
        assert transport.join_plans(two, shares, plans_between(two)) == pytest.approx(expected)


def test_the_highest_line_is_never_below_zero():
    lines = np.array([[-1.0, 2.0], [-0.2, 0.5]])
    assert transport.highest(lines, 1.0).tolist() == [-1.0, 2.0]
    assert transport.highest(lines, 0.5).tolist() == [-0.2, 0.5]
    assert transport.highest(lines, 0.1).tolist() == [0.0, 0.0]


class TestPeople:
    groups = SensitiveFeatures.of(np.where(np.arange(100) < 12, "few", "many")).columns[0]

    def test_few_people_are_all_seen_once(self):
        (sample,) = transport.draw_samples(
            rows(100), self.groups, max_people=100, random=np.random.RandomState(0)
        )
        assert [len(group) for group in sample] == [12, 88]

    def test_many_people_are_seen_in_samples_of_half(self):
        samples = transport.draw_samples(
            rows(100), self.groups, max_people=60, random=np.random.RandomState(0)
        )
        assert len(samples) == transport.SAMPLES
        for sample in samples:
            assert sum(map(len, sample)) == 30
            assert len(sample[0]) >= 10
        assert not torch.equal(samples[0][1][:5], samples[1][1][:5])

    def test_short_rows_stay_as_they_are(self):
        given = rows(100)
        shortened, lost = transport.project(given, self.groups, np.random.RandomState(0))
        assert shortened is given
        assert lost == 0

    def test_shorter_rows_are_no_further_apart(self, monkeypatch):
        monkeypatch.setattr(transport, "LONGEST_ROW", 4)
        given = rows(100, columns=20)
        shortened, lost = transport.project(given, self.groups, np.random.RandomState(0))
        assert shortened.shape == (100, 6)  # the means of two groups come on top
        apart, before = torch.cdist(shortened, shortened), torch.cdist(given, given)
        assert (apart <= before + 1e-6).all()  # cdist rounds on the diagonal
        squares = [x.square().sum(1).mean() for x in (shortened, given)]
        assert float(squares[0] + lost) == pytest.approx(float(squares[1]))
        means = [[x.mean(0) for x in transport.split(y, self.groups)] for y in (given, shortened)]
        distances = [float((a - b).norm()) for a, b in means]
        assert distances[0] == pytest.approx(distances[1])
