import json

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from parafair import SensitiveFeatures, audit
from parafair.audits import ATTACKERS, Verdict
from parafair.audits.networks import TunedNetworkClassifier
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(120, seed=1).numpy().ravel()
ROWS = example_rows(120, 3, seed=0).numpy()
NUMBERS = example_rows(120, 1, seed=9).numpy().ravel()
QUICK = {"attackers": ["linear", "neighbors"], "repeats": 1, "permutations": 20}


def scores(result, *, feature=None):
    return {
        (row.model, row.input): row.value
        for row in result.attackers
        if feature in (None, row.feature)
    }


def values(result):
    return {row.measure: row.value for row in result.rows if not row.model}


class TestLeaks:
    def test_all_attackers_find_a_leak_in_a_tiny_column(self):
        # The paper's network and KHSIC see the columns as they are; the attackers do not.
        hidden = np.column_stack([1e-6 * (GROUPS + 0.1 * NUMBERS), 10 * ROWS])
        result = audit(hidden, sensitive_features=GROUPS, folds=2, repeats=1, permutations=50)
        assert {model for model, _ in scores(result)} == set(ATTACKERS)
        assert min(scores(result).values()) > 0.85
        assert result.leakage > 0.45
        assert result.verdict() is Verdict.LEAKS
        measures = values(result)
        assert measures["network, balanced"] < 0.8
        assert measures["normalized KHSIC"] < 0.2
        assert measures["independence p-value"] < 0.05

    def test_a_full_leak_is_one_half(self):
        result = audit(np.column_stack([GROUPS, ROWS]), sensitive_features=GROUPS, **QUICK)
        assert result.leakage == pytest.approx(0.5, abs=0.01)
        assert result.leakage_interval == pytest.approx((0.5, 0.5), abs=0.03)

    def test_a_leak_between_correlated_columns_needs_whitening(self):
        # The groups differ only in the small difference of two columns that are nearly equal.
        common = 1000 * ROWS[:, 0]
        hidden = np.column_stack([common, common + (2 * GROUPS - 1) + 0.2 * NUMBERS])
        result = audit(
            hidden, sensitive_features=GROUPS, **(QUICK | {"attackers": ["neighbors", "svm"]})
        )
        found = scores(result)
        assert min(v for (_, form), v in found.items() if form == "whitened") > 0.9
        assert max(v for (_, form), v in found.items() if form == "standardized") < 0.7

    @pytest.mark.parametrize("kind", ["xor", "radius"])
    def test_a_leak_no_line_sees_is_found(self, kind):
        rows = example_rows(240, 3, seed=2).numpy()
        measure = rows[:, 0] * rows[:, 1] if kind == "xor" else (rows**2).sum(1)
        groups = measure > np.median(measure)
        result = audit(
            rows,
            sensitive_features=groups,
            **(QUICK | {"attackers": ["linear", "svm", "neighbors"]}),
        )
        found = scores(result)
        assert max(v for (model, _), v in found.items() if model == "linear") < 0.65
        assert result.leakage > 0.25
        assert result.above_chance
        assert result.strongest.model != "linear"

    def test_numbers_are_guessed_by_regression(self):
        age = ROWS[:, 0] ** 2 + 0.1 * NUMBERS
        result = audit(
            ROWS,
            sensitive_features=age,
            **(QUICK | {"attackers": ["linear", "forest"], "folds": 3}),
        )
        found = scores(result)
        assert found["forest", "ranks"] > 0.5
        assert found["linear", "standardized"] < 0.3
        assert result.leakage == pytest.approx(found["forest", "ranks"], abs=0.15)
        ranks = [row for row in result.rows if row.measure == "rank correlation"]
        assert max(row.value for row in ranks) > 0.7

    def test_three_groups(self):
        groups = np.digitize(ROWS[:, 0], [-0.5, 0.5]).astype(str)
        result = audit(ROWS, sensitive_features=groups, **QUICK)
        assert result.attackers[0].chance == pytest.approx(1 / 3)
        assert 0.4 < result.leakage <= 2 / 3
        areas = [row.value for row in result.rows if row.measure == "AUC"]
        assert min(areas) > 0.8


class TestChance:
    def test_an_independent_embedding_leaks_little(self):
        result = audit(ROWS, sensitive_features=GROUPS, folds=2, repeats=1, permutations=20)
        assert abs(result.leakage) < 0.1
        assert not result.above_chance
        assert not result.below_chance
        assert {row.chance for row in result.attackers} == {0.5}

    @pytest.mark.slow
    def test_independent_data_is_at_chance_in_95_percent_of_seeds(self, monkeypatch):
        signs, covered = [], []
        for rest in ("paper_rows", "dependence_rows"):  # slow
            monkeypatch.setattr(f"parafair.audits.run.{rest}", lambda *_, **__: [])
        for seed in range(40):
            random = np.random.RandomState(seed)
            rows, groups = random.normal(size=(60, 3)), random.permutation(60) < 25
            settings = QUICK | {"folds": 3, "random_state": seed}
            result = audit(rows, sensitive_features=groups, **settings)
            signs.append(result.above_chance or result.below_chance)
            low, high = result.leakage_interval
            covered.append(low <= 0 <= high)
        assert np.mean(signs) <= 0.05
        assert np.mean(covered) >= 0.95

    def test_an_embedding_that_says_nothing_leaks_nothing(self):
        for rows in (np.zeros((120, 2)), np.full((120, 1), 0.1)):
            result = audit(rows, sensitive_features=GROUPS, **QUICK)
            assert result.leakage == pytest.approx(0, abs=1e-3)  # folds are not of equal size
            assert not result.above_chance
            assert values(result)["independence p-value"] == 1

    def test_dependent_columns_do_no_harm(self):
        dependent = np.column_stack([ROWS, ROWS[:, 0] + ROWS[:, 1], np.zeros(120)])
        result = audit(dependent, sensitive_features=GROUPS, **QUICK)
        alone = audit(ROWS, sensitive_features=GROUPS, **QUICK)
        assert result.leakage == pytest.approx(alone.leakage, abs=0.05)
        json.dumps(result.to_dict(), allow_nan=False)

    def test_matched_pairs_leak(self):
        # Every embedding occurs once in each group: a held-out twin is always guessed wrong.
        twins = np.repeat(example_rows(60, 3, seed=4).numpy(), 2, axis=0)
        result = audit(twins, sensitive_features=np.tile(["a", "b"], 60), **QUICK)
        assert min(row.advantage for row in result.attackers) < -0.2
        assert result.below_chance
        assert result.verdict() is Verdict.LEAKS
        assert result.leakage > 0.25
        assert any("turns the answer around is right" in note for note in result.notes)

    def test_matched_numbers_leak(self):
        twins = np.repeat(example_rows(60, 2, seed=4).numpy(), 2, axis=0)
        numbers = np.tile([1.0, -1.0], 60) * np.repeat(1 + np.abs(NUMBERS[:60]), 2)
        result = audit(twins, sensitive_features=numbers, **QUICK)
        assert max(row.value for row in result.attackers) < 0
        assert result.below_chance
        assert result.verdict() is Verdict.LEAKS
        assert result.leakage > 0.2

    def test_an_ignorant_regression_is_no_warning(self):
        result = audit(ROWS[:60], sensitive_features=NUMBERS[:60], **QUICK)
        assert min(row.advantage for row in result.attackers) < 0
        assert not result.below_chance
        assert result.leakage == pytest.approx(0, abs=0.1)


class TestFeatures:
    def test_every_feature_has_its_rows_and_all_together(self):
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"gender": np.where(GROUPS, "f", "m"), "age": ROWS[:, 1] * 3})
        result = audit(ROWS, sensitive_features=table, **QUICK)
        features = list(dict.fromkeys(row.feature for row in result.rows))
        assert features == ["gender", "age", "gender x age"]
        paper = {row.feature for row in result.rows if row.section == "paper"}
        assert paper == {"gender", "age"}
        by_feature = {r.feature: r.value for r in result.rows if r.section == "leakage"}
        assert by_feature["age"] > 0.8
        assert result.leakage == max(by_feature.values())

    @pytest.mark.slow
    def test_a_leak_of_the_combination_alone_is_found(self):
        # Neither feature is revealed, but whether they agree is.
        first, second = np.random.RandomState(0).randint(2, size=(2, 200))
        rows = ((first == second) + 0.1 * example_rows(200, 1, seed=3).numpy().ravel())[:, None]
        result = audit(rows, sensitive_features=np.column_stack([first, second]), **QUICK)
        by_feature = {r.feature: r.value for r in result.rows if r.section == "leakage"}
        assert max(by_feature["s0"], by_feature["s1"]) < 0.1
        assert by_feature["s0 x s1"] > 0.15

    def test_features_that_cannot_be_joined_are_said(self):
        result = audit(ROWS, sensitive_features=np.column_stack([GROUPS, 1 - GROUPS]), **QUICK)
        assert "the joint feature was not attacked" in result.notes[-1]

    def test_small_combinations_are_said(self):
        first, second = np.repeat(["a", "b"], 60), np.tile(["common"] * 19 + ["rare"], 6)
        result = audit(ROWS, sensitive_features=np.column_stack([first, second]), **QUICK)
        assert any("small combinations" in note for note in result.notes)


class TestSettings:
    @pytest.mark.slow
    def test_the_seed_is_honored_and_processes_do_not_matter(self):
        network = {"network": TunedNetworkClassifier(steps=5)}
        settings = QUICK | {"attackers": network, "folds": 2}
        one = audit(ROWS[:60], sensitive_features=GROUPS[:60], **settings, random_state=3)
        assert one == audit(ROWS[:60], sensitive_features=GROUPS[:60], **settings, random_state=3)
        assert one == audit(
            ROWS[:60], sensitive_features=GROUPS[:60], **settings, random_state=3, n_jobs=2
        )
        assert one != audit(ROWS[:60], sensitive_features=GROUPS[:60], **settings, random_state=4)

    def test_threads_are_given_back(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            audit(ROWS, sensitive_features=GROUPS, **QUICK)
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)

    @pytest.mark.slow
    def test_more_repeats_change_the_value_little(self):
        one, many = (
            audit(ROWS, sensitive_features=GROUPS, **(QUICK | {"repeats": r})) for r in (1, 5)
        )
        assert one.attackers != many.attackers
        assert many.leakage == pytest.approx(one.leakage, abs=0.1)

    def test_large_data_is_sampled_and_says_so(self):
        result = audit(ROWS, sensitive_features=GROUPS, max_people=60, **QUICK)
        assert (result.people, result.population) == (60, 120)
        assert "a random sample of 60 of 120 people was audited" in str(result)

    def test_independence_is_tested_on_fewer_people_and_says_so(self, monkeypatch):
        for module in ("run", "dependence"):
            monkeypatch.setattr(f"parafair.audits.{module}.MOST_TESTED", 60)
        revealing = np.column_stack([GROUPS, ROWS])
        result = audit(revealing, sensitive_features=GROUPS, **(QUICK | {"permutations": 50}))
        assert "independence was tested on a random sample of 60 people" in result.notes
        assert values(result)["independence p-value"] < 0.05

    def test_rare_groups_survive_sampling(self):
        groups = np.where(np.arange(120) < 3, "rare", "common")
        assert audit(ROWS, sensitive_features=groups, max_people=40, **QUICK).people == 40

    def test_attackers_trained_on_fewer_people_are_said(self):
        from dataclasses import replace

        small = {"quick svm": replace(ATTACKERS["svm"], max_people=30)}
        result = audit(ROWS, sensitive_features=GROUPS, **(QUICK | {"attackers": small}))
        assert "quick svm was trained on samples of 30 people" in result.notes

    def test_own_estimators_attack_features_of_their_kind(self):
        mine = QUICK | {"attackers": {"bayes": GaussianNB()}}
        result = audit(ROWS, sensitive_features=GROUPS, **mine)
        assert {row.model for row in result.attackers} == {"bayes"}
        with pytest.raises(ValueError, match="attackers has no regressor, but .* 'sensitive'"):
            audit(ROWS, sensitive_features=NUMBERS, **mine)

    def test_progress_is_reported(self):
        seen = []
        audit(
            ROWS,
            sensitive_features=GROUPS,
            **QUICK,
            on_progress=lambda done, total: seen.append((done, total)),
        )
        assert seen == [(done, 6) for done in range(1, 7)]

    def test_single_precision_is_known(self):
        # In single precision the third column is the sum of the others up to rounding.
        rows = ROWS.astype(np.float32)
        rows[:, 2] = rows[:, 0] + rows[:, 1]
        single = audit(rows, sensitive_features=GROUPS, **QUICK)
        assert (
            single.attackers
            == audit(torch.from_numpy(rows), sensitive_features=GROUPS, **QUICK).attackers
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"folds": 1}, "folds must be a whole number from 2 to 20, got 1"),
            ({"folds": 200}, "folds must be a whole number from 2 to 20, got 200"),
            ({"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
            ({"permutations": 0}, "permutations must be a whole number of at least 1, got 0"),
            ({"random_state": -1}, "random_state must be a whole number between 0 and .* got -1"),
            ({"max_people": 5}, "max_people must be at least 20 .*, got 5"),
            ({"max_people": 3}, "max_people must be a whole number of at least 4, got 3"),
            ({"attackers": ["linaer"]}, "every name in attackers .* did you mean 'linear'"),
        ],
    )
    def test_bad_settings_are_refused_before_any_work(self, change, message, monkeypatch):
        monkeypatch.setattr("parafair.audits.run.try_attackers", None)
        with pytest.raises(ValueError, match=message):
            audit(ROWS, sensitive_features=GROUPS, **(QUICK | change))

    def test_bad_data_is_refused(self):
        with pytest.raises(ValueError, match="sensitive_features has 10 rows .* has 120"):
            audit(ROWS, sensitive_features=GROUPS[:10])
        with pytest.raises(ValueError, match="group 'b' of sensitive feature .* only one member"):
            audit(ROWS, sensitive_features=np.array(["a"] * 119 + ["b"]))
        holes = ROWS.copy()
        holes[3, 1] = np.nan
        with pytest.raises(ValueError, match="embedding has 1 NaN or infinite entries"):
            audit(holes, sensitive_features=GROUPS)

    def test_two_members_are_enough(self):
        result = audit(ROWS, sensitive_features=np.array(["a"] * 118 + ["b"] * 2), **QUICK)
        json.dumps(result.to_dict(), allow_nan=False)

    def test_features_may_come_with_stated_kinds(self):
        codes = SensitiveFeatures.of(np.arange(120) % 20, kinds="numeric")
        result = audit(ROWS, sensitive_features=codes, **QUICK)
        assert {row.measure for row in result.attackers} == {"R squared"}


@pytest.mark.slow
@pytest.mark.parametrize("numeric", [False, True])
def test_all_attackers_are_at_chance_in_95_percent_of_seeds(numeric):
    signs, covered = [], []
    for seed in range(40):
        random = np.random.RandomState(seed)
        rows, groups = random.normal(size=(100, 4)), random.permutation(100) < 40
        features = random.normal(size=100) if numeric else groups
        result = audit(rows, sensitive_features=features, permutations=1, random_state=seed)
        signs.append(result.above_chance or result.below_chance)
        low, high = result.leakage_interval
        covered.append(low <= 0 <= high)
    assert np.mean(signs) <= 0.05
    assert np.mean(covered) >= 0.95


def test_what_cannot_be_called_or_counted_is_refused_before_any_work():
    with pytest.raises(TypeError, match="on_progress must be a function or None, got 1"):
        audit(ROWS, sensitive_features=GROUPS, on_progress=1)
    with pytest.raises(ValueError, match="n_jobs must be a whole number other than 0"):
        audit(ROWS, sensitive_features=GROUPS, n_jobs=0)


def test_an_embedding_without_columns_is_refused():
    with pytest.raises(ValueError, match="embedding must have one row per person and at least one"):
        audit(ROWS[:, :0], sensitive_features=GROUPS, **QUICK)
