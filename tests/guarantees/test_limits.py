import json
import sys

import numpy as np
import pytest
import torch

from parafair import TensorData, datasets
from parafair.data.column import Column
from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence import transport
from parafair.guarantees.limits import ParityLimit, parity_limit
from tests.guarantees.conftest import TAUS, people, relative, split
from tests.reference.transport import best_permutation, coupling_cost

pytest.importorskip("ot", reason="needs parafair[limits]")


class TestTwoGroups:
    def test_the_example_of_the_docstring(self):
        limit = parity_limit([[0, 1], [3, 1]], sensitive_features=["f", "m"])
        assert limit.residual == pytest.approx((4.5 / 11) ** 0.5)

    def test_equal_sizes_match_the_best_of_all_pairings(self):
        rows, labels = people(6, 6)
        limit = parity_limit(rows, sensitive_features=labels)
        expected = relative(best_permutation(*split(rows, labels)) / 4, rows)
        assert limit.residual == pytest.approx(expected, rel=1e-9)
        assert limit.upper == pytest.approx(expected, rel=1e-9)
        assert limit.exact

    @pytest.mark.parametrize("sizes", [(7, 7), (4, 9), (1, 6), (1, 1)])
    def test_the_curve_is_the_partial_transport_of_a_linear_program(self, sizes):
        rows, labels = people(*sizes, seed=1)
        limit = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        expected = [relative(coupling_cost(split(rows, labels), 1 - t), rows) for t in TAUS]
        assert limit.residuals == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert limit.residuals[0] == limit.residual
        assert limit.residuals[-1] == 0
        assert limit.exact

    def test_between_the_taus_the_limit_is_below_the_curve_and_close(self):
        rows, labels = people(8, 6, seed=2)
        limit = parity_limit(rows, sensitive_features=labels)
        for tau in np.linspace(0.01, 0.79, 12):
            exact = relative(coupling_cost(split(rows, labels), 1 - tau), rows)
            assert limit.at(tau / 2) <= exact + 1e-7  # the reference is good to about 1e-8
            assert limit.at(tau / 2) == pytest.approx(exact, abs=0.02)

    def test_curve_decreases_and_its_square_is_convex(self):
        rows, labels = people(30, 20, seed=3)
        limit = parity_limit(rows, sensitive_features=labels, taus=np.linspace(0, 1, 21))
        squares = np.array(limit.residuals) ** 2
        assert (np.diff(squares) <= 0).all()
        assert (np.diff(squares, 2) >= -1e-12).all()

    def test_synthetic_data(self):
        data = datasets.synthetic(0)
        limit = parity_limit(
            data.tensor, sensitive_features=data.sensitive_features, taus=(0.0, 0.1)
        )
        assert limit.residual == pytest.approx(0.6411, abs=1e-4)
        # Equal means alone cost nearly as much.
        rows = data.tensor.reshape(200, -1)
        gap = rows[:100].mean(0) - rows[100:].mean(0)
        assert relative((gap**2).sum() / 4, rows) == pytest.approx(0.6405, abs=1e-4)
        assert limit.groups == (("normal", 100), ("uniform", 100))


class TestMoreGroups:
    @pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 4, 3), (1, 2, 5), (2, 2, 3, 2)])
    def test_few_people_are_coupled_exactly(self, sizes):
        rows, labels = people(*sizes, seed=4)
        limit = parity_limit(rows, sensitive_features=labels)
        expected = relative(coupling_cost(split(rows, labels)), rows)
        assert limit.residual == pytest.approx(expected, rel=1e-6)
        assert limit.upper == pytest.approx(expected, rel=1e-6)
        assert limit.exact

    def test_pairs_give_a_bound_and_a_coupling_an_upper_one(self, monkeypatch):
        rows, labels = people(4, 5, 6, seed=5)
        exact = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        monkeypatch.setattr(transport, "LARGEST_COUPLING", 0)
        pairs = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        assert 0.9 * exact.residual < pairs.residual < exact.residual < pairs.upper
        assert (np.array(pairs.residuals) <= np.array(exact.residuals) + 1e-9).all()
        assert not pairs.exact
        assert any("each pair of groups was coupled separately" in note for note in pairs.notes)

    def test_pairs_on_a_line_agree_so_their_bound_is_exact(self, monkeypatch):
        # Sorting couples all groups at once when rows are single numbers.
        rows, labels = people(8, 8, 8, columns=1)
        monkeypatch.setattr(transport, "LARGEST_COUPLING", 0)
        limit = parity_limit(rows, sensitive_features=labels)
        means = np.mean([np.sort(group, axis=0) for group in split(rows, labels)], 0)
        loss = sum(((np.sort(g, axis=0) - means) ** 2).sum() for g in split(rows, labels)) / 24
        assert limit.residual == pytest.approx(relative(loss, rows))
        assert limit.exact

    def test_near_zero_the_curve_continues_the_limit_of_exact_parity(self):
        rows, labels = people(6, 5, 4, seed=6)
        limit = parity_limit(rows, sensitive_features=labels, taus=(1e-6,))
        assert limit.residuals[0] == pytest.approx(limit.residual, abs=1e-5)

    def test_curve_decreases_and_its_square_is_convex(self):
        rows, labels = people(20, 25, 15, 18, seed=3)
        limit = parity_limit(rows, sensitive_features=labels, taus=np.linspace(0, 1, 21))
        squares = np.array(limit.residuals) ** 2
        assert (np.diff(squares) <= 0).all()
        assert (np.diff(squares, 2) >= -1e-12).all()
        assert squares[-2] > 0

    def test_two_groups_say_as_much_when_the_third_is_far_from_mattering(self):
        # A third group of one: nearly all of the loss is that of the first two.
        rows, labels = people(20, 20, seed=7)
        two = parity_limit(rows, sensitive_features=labels, taus=(0.4,))
        rows, labels = np.vstack([rows, rows[:1]]), np.append(labels, "alone")
        three = parity_limit(rows, sensitive_features=labels, taus=(0.4,))
        assert three.residuals[0] > 0.95 * two.residuals[0]


class TestManyPeople:
    @pytest.mark.parametrize("sizes", [(150, 150), (220, 60), (100, 120, 80)])
    def test_samples_give_a_bound_that_is_close(self, sizes):
        rows, labels = people(*sizes, seed=9)
        exact = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        sampled = parity_limit(rows, sensitive_features=labels, taus=TAUS, max_people=200)
        assert (np.array(sampled.residuals) <= np.array(exact.residuals) + 1e-12).all()
        assert sampled.residual > 0.9 * exact.residual
        # Costs are about 1e-2 in these units, so an absolute tolerance at small residuals.
        assert sampled.residuals == pytest.approx(exact.residuals, abs=0.06)
        assert not sampled.exact
        assert sampled.upper > exact.residual
        assert any("a lower bound from 8 samples" in note for note in sampled.notes)

    def test_no_sample_makes_it_more_than_the_exact_value(self):
        rows, labels = people(40, 50, seed=10)
        exact = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        for seed in range(10):
            sampled = parity_limit(
                rows, sensitive_features=labels, taus=TAUS, max_people=25, random_state=seed
            )
            assert (np.array(sampled.residuals) <= np.array(exact.residuals) + 1e-12).all()

    def test_long_rows_are_projected(self, monkeypatch):
        monkeypatch.setattr(transport, "LONGEST_ROW", 4)
        rows, labels = people(60, 50, columns=40, seed=11)
        settings = {"taus": TAUS, "max_people": 80}
        projected = parity_limit(rows, sensitive_features=labels, **settings)
        exact = parity_limit(rows, sensitive_features=labels, taus=TAUS)
        assert projected.residual < exact.residual < projected.upper
        assert any("rows of 40 numbers were projected to 6" in note for note in projected.notes)
        # Rows of low rank lose nothing: the same as in their own coordinates.
        turned = rows[:, :3] @ np.linalg.qr(np.random.default_rng(0).normal(size=(40, 3)))[0].T
        short = parity_limit(rows[:, :3], sensitive_features=labels, max_people=80).residual
        long = parity_limit(turned, sensitive_features=labels, max_people=80)
        assert long.residual == pytest.approx(short, rel=0.02)  # samples differ
        assert long.residual <= parity_limit(turned, sensitive_features=labels).residual

    def test_seed_is_honored_and_matters(self):
        rows, labels = people(60, 50, seed=12)
        runs = [
            parity_limit(rows, sensitive_features=labels, max_people=50, random_state=s)
            for s in (0, 0, 1)
        ]
        assert runs[0] == runs[1]
        assert runs[0].residual != runs[2].residual


class TestInvariance:
    rows, labels = people(14, 9, columns=12, seed=13)
    expected = parity_limit(rows, sensitive_features=labels, taus=TAUS)

    def same(self, limit):
        assert limit.residuals == pytest.approx(self.expected.residuals, rel=1e-9)

    def test_order_of_people(self):
        order = np.random.default_rng(0).permutation(len(self.rows))
        self.same(parity_limit(self.rows[order], sensitive_features=self.labels[order], taus=TAUS))

    @pytest.mark.parametrize("mode", [0, 1, 2])
    def test_mode_and_order(self, mode):
        tensor = np.moveaxis(self.rows.reshape(23, 3, 4), 0, mode)
        self.same(parity_limit(tensor, sensitive_features=self.labels, mode=mode, taus=TAUS))

    @pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
    def test_scale_of_the_data(self, scale):
        self.same(parity_limit(scale * self.rows, sensitive_features=self.labels, taus=TAUS))

    def test_rotation(self):
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
        self.same(parity_limit(self.rows @ turn, sensitive_features=self.labels, taus=TAUS))

    def test_torch_and_single_precision(self):
        self.same(
            parity_limit(torch.from_numpy(self.rows), sensitive_features=self.labels, taus=TAUS)
        )
        single = parity_limit(
            self.rows.astype(np.float32), sensitive_features=self.labels, taus=TAUS
        )
        assert single.residuals == pytest.approx(self.expected.residuals, rel=1e-6)

    def test_input_is_left_alone(self):
        before = self.rows.copy()
        parity_limit(torch.from_numpy(self.rows), sensitive_features=self.labels)
        assert (self.rows == before).all()


class TestGroups:
    @pytest.mark.parametrize("copies", [2, 3])
    def test_identical_groups_cost_nothing(self, copies):
        rows = np.random.default_rng(0).standard_normal((6, 4))
        limit = parity_limit(
            np.vstack([rows] * copies), sensitive_features=np.repeat(["a", "b", "c"][:copies], 6)
        )
        assert limit.residual == 0
        assert set(limit.residuals) == {0}
        assert limit.exact

    def test_one_group_costs_nothing(self):
        alone = SensitiveFeatures((Column("s", "categorical", np.zeros(5, int), ("all",)),))
        limit = parity_limit(np.ones((5, 2)), sensitive_features=alone)
        assert (limit.residual, limit.upper, limit.exact) == (0, 0, True)
        assert limit.at(0) == 0

    def test_several_columns_make_joint_groups(self):
        rows, labels = people(6, 6, seed=14)
        second = np.tile(["x", "y", "y"], 4)
        table = np.stack([labels, second], 1)
        limit = parity_limit(rows, sensitive_features=table)
        joint = parity_limit(rows, sensitive_features=[f"{a}{b}" for a, b in table])
        assert limit.residuals == joint.residuals
        assert limit.groups[0][0] == "g0, x"
        assert "12 people in 4 groups of s0 x s1: g0, x (" in limit.notes[0]
        assert sum(size for _, size in limit.groups) == 12
        assert limit.residual > parity_limit(rows, sensitive_features=labels).residual

    def test_numbers_are_cut_at_quantiles(self):
        numbers = np.random.default_rng(0).standard_normal(24)
        rows, _ = people(24)
        limit = parity_limit(rows, sensitive_features=numbers, bins=4)
        assert [size for _, size in limit.groups] == [6] * 4
        quarters = np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers)
        assert (
            limit.residuals == parity_limit(rows, sensitive_features=quarters.astype(str)).residuals
        )
        assert any("'sensitive' binned at quantiles" in note for note in limit.notes)
        assert parity_limit(rows, sensitive_features=numbers, bins=2).residual < limit.residual

    @pytest.mark.parametrize("value", [-9.0, 9.0, 0.5])
    def test_numbers_with_many_ties_still_make_groups(self, value):
        numbers = np.r_[np.full(36, value), 0.1, 0.2, 0.7, 0.8]
        limit = parity_limit(people(40)[0], sensitive_features=numbers)
        assert len(limit.groups) > 1
        assert 36 in dict(limit.groups).values()

    def test_people_who_are_not_known_may_be_fitted_exactly(self):
        rows, labels = people(9, 7, seed=4)
        known = np.arange(16) % 5 != 2
        features = SensitiveFeatures.of(np.where(known, labels, None), missing="exclude")
        limit = parity_limit(rows, sensitive_features=features)
        alone = parity_limit(rows[known], sensitive_features=labels[known])
        share = np.linalg.norm(rows[known]) / np.linalg.norm(rows)
        assert limit.residual == pytest.approx(share * alone.residual)
        assert dict(limit.groups) == dict(alone.groups)

    def test_chance_tells_few_people_from_groups_that_differ(self):
        random = np.random.default_rng(0)
        noise, labels = random.standard_normal((40, 10)), np.repeat(["a", "b"], 20)
        limit = parity_limit(noise, sensitive_features=labels)
        assert limit.chance == pytest.approx(limit.residual, rel=0.1)
        assert "too few people for this dimension" in limit.notes[-1]
        apart = parity_limit(noise + 9 * (labels == "a")[:, None], sensitive_features=labels)
        assert apart.chance < apart.residual / 2
        assert "too few people" not in apart.notes[-1]


class TestResult:
    rows, labels = people(12, 10, 8, seed=15)
    limit = parity_limit(rows, sensitive_features=labels, taus=TAUS)

    def test_leakage_of_two_and_of_more_groups(self):
        assert self.limit.leakages == pytest.approx([tau / 3 for tau in TAUS])
        for leakage, residual in zip(self.limit.leakages, self.limit.residuals, strict=True):
            assert self.limit.at(leakage) == pytest.approx(residual, abs=1e-9)
        assert self.limit.at(-0.2) == self.limit.residual
        assert self.limit.at(1.0) == 0

    def test_undefined_leakage_is_refused(self):
        with pytest.raises(ValueError, match="leakage must be a finite number, got nan"):
            self.limit.at(float("nan"))

    def test_can_be_written_as_json(self):
        found = json.loads(json.dumps(self.limit.to_dict()))
        assert found["residual"] == self.limit.residual
        assert found["groups"][0] == {"name": "g0", "size": 12}
        assert set(found) == {*ParityLimit.__dataclass_fields__, "leakages"}

    def test_prints_the_curve_and_the_notes(self):
        text = str(self.limit)
        assert f"exact parity needs a residual of {self.limit.residual:.3f}" in text
        assert "30 people in 3 groups of sensitive: g0 (12), g1 (10), g2 (8)" in text
        assert len(text.splitlines()) == 2 + len(TAUS) + len(self.limit.notes)


class TestErrors:
    def test_lengths_must_agree(self):
        expected = "sensitive_features has 3 rows but mode 0 of X has 5; pass one row per"
        with pytest.raises(ValueError, match=expected):
            parity_limit(np.ones((5, 2)), sensitive_features=["a", "b", "a"])

    @pytest.mark.parametrize("taus", [(0.1, 1.5), [-0.1], float("nan")])
    def test_taus_are_between_0_and_1(self, taus):
        with pytest.raises(
            ValueError, match="each of taus must be a finite number of at least 0 and of at most 1"
        ):
            parity_limit(np.ones((2, 2)), sensitive_features=["a", "b"], taus=taus)

    @pytest.mark.parametrize("name", ["bins", "max_people"])
    @pytest.mark.parametrize("value", [1, 2.5, True])
    def test_counts_are_whole_numbers(self, name, value):
        with pytest.raises(
            ValueError,
            match=f"{name} must be a whole number (of at least 2|from 2 to 1000000), got",
        ):
            parity_limit(np.ones((2, 2)), sensitive_features=["a", "b"], **{name: value})

    def test_mode_must_exist(self):
        with pytest.raises(ValueError, match="mode must be between 0 and 1"):
            parity_limit(np.ones((2, 2)), sensitive_features=["a", "b"], mode=2)

    def test_zero_has_no_limit(self):
        with pytest.raises(ValueError, match="X is zero everywhere; there is nothing"):
            parity_limit(np.zeros((2, 2)), sensitive_features=["a", "b"])

    def test_too_many_groups(self):
        labels = np.arange(240) // 2
        with pytest.raises(ValueError, match="make 120 groups, the limit needs at most 100; merge"):
            parity_limit(np.ones((240, 2)), sensitive_features=labels.astype(str))

    def test_missing_package_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ot", None)
        with pytest.raises(ImportError, match=r"pip install 'parafair\[limits\]'"):
            parity_limit(np.eye(2), sensitive_features=["a", "b"])


def test_labeled_data_has_a_limit_and_incomplete_data_has_none():
    tensor = np.random.default_rng(0).standard_normal((6, 3, 2))
    groups = ["f", "m"] * 3
    data = TensorData.from_array(tensor, modes=("who", "what", "when"))
    expected = parity_limit(tensor, sensitive_features=groups).residual
    assert parity_limit(data, sensitive_features=groups, mode="who").residual == expected
    assert parity_limit(data.to_sparse(), sensitive_features=groups).residual == pytest.approx(
        expected
    )
    tensor[0, 0, 0] = np.nan
    for missing in (tensor, TensorData.from_array(tensor).to_sparse()):
        with pytest.raises(ValueError, match="X has 1 missing entries of 36"):
            parity_limit(missing, sensitive_features=groups)
