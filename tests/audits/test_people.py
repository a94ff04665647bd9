import json

import numpy as np
import pytest

from parafair import FairCP, audit
from parafair.audits import Verdict
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(120, seed=1).numpy().ravel()
ROWS = example_rows(120, 3, seed=0).numpy()
NUMBERS = example_rows(120, 1, seed=9).numpy().ravel()
FAST = ["linear", "svm", "kernel-vote", "neighbors", "network"]
QUICK = {"attackers": ["linear", "neighbors"], "repeats": 1, "permutations": 20}


def values(result):
    return {row.measure: row.value for row in result.rows if not row.model}


def test_a_model_instead_of_its_rows_is_refused_with_a_remedy():
    with pytest.raises(TypeError, match="got a FairCP; pass model.embedding_"):
        audit(FairCP(2), sensitive_features=GROUPS)


class TestFewPeople:
    @pytest.mark.parametrize("n", [4, 5, 6, 9])
    @pytest.mark.parametrize("kind", ["groups", "numbers"])
    def test_few_people_are_audited_and_little_is_known(self, n, kind):
        features = np.arange(n) % 2 if kind == "groups" else NUMBERS[:n]
        result = audit(ROWS[:n], sensitive_features=features, permutations=5, attackers=FAST)
        low, high = result.leakage_interval
        assert high - low > 0.5
        assert "is not significant" in str(result)
        assert f"{result.people} people" in str(result)
        json.dumps(result.to_dict(), allow_nan=False)

    def test_folds_are_fewer_and_this_is_said(self):
        result = audit(ROWS[:8], sensitive_features=np.arange(8) % 2, **QUICK)
        assert "there were 4 folds instead of 5, because groups are small" in result.notes

    def test_three_people_are_too_few(self):
        with pytest.raises(ValueError, match="embedding has 3 rows, but an audit needs at least 4"):
            audit(ROWS[:3], sensitive_features=[0, 1, 0])


class TestNewPeople:
    def test_attackers_of_the_known_are_tested_on_the_new(self):
        revealing = np.column_stack([GROUPS + 0.1 * NUMBERS, ROWS])
        random = np.random.RandomState(0).normal(size=(40, 4))
        hidden = audit(
            revealing[:80],
            sensitive_features=GROUPS[:80],
            new_embedding=random,
            new_sensitive_features=GROUPS[80:],
            **QUICK,
        )
        assert hidden.verdict(0.2) is Verdict.PASSES
        assert (hidden.people, hidden.population) == (40, 40)
        assert "attackers were trained on 80 people and tested on new ones" in hidden.notes
        open_ = audit(
            revealing[:80],
            sensitive_features=GROUPS[:80],
            new_embedding=revealing[80:],
            new_sensitive_features=GROUPS[80:],
            **QUICK,
        )
        assert open_.leakage > 0.45
        assert open_.verdict() is Verdict.LEAKS

    def test_numbers_and_several_features_of_new_people(self):
        table = np.column_stack([GROUPS, 3 * ROWS[:, 0]])
        result = audit(
            ROWS[:80],
            sensitive_features=table[:80],
            new_embedding=ROWS[80:],
            new_sensitive_features=table[80:],
            **QUICK,
        )
        by_feature = {r.feature: r.value for r in result.rows if r.section == "leakage"}
        assert by_feature["s1"] > 0.8
        assert by_feature["s0"] < 0.2

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"new_embedding": None}, "new_embedding is missing"),
            ({"new_sensitive_features": None}, "new_sensitive_features is missing"),
            ({"new_embedding": ROWS[80:, :2]}, "new_embedding has 2 columns but embedding has 3"),
            ({"new_embedding": ROWS[80:90]}, "has 40 rows but the new_embedding has 10"),
            ({"new_sensitive_features": [0.0] * 40}, "group '1' .* no member among the new people"),
            ({"target": NUMBERS[:80]}, "target cannot be combined with new_embedding"),
        ],
    )
    def test_bad_new_people_are_refused(self, change, message):
        given = {"new_embedding": ROWS[80:], "new_sensitive_features": GROUPS[80:]} | change
        with pytest.raises(ValueError, match=message):
            audit(ROWS[:80], sensitive_features=GROUPS[:80], **given, **QUICK)


class TestExtremePeople:
    def test_one_person_far_away_blinds_nobody_and_is_named(self):
        pandas = pytest.importorskip("pandas")
        groups = np.array(["a", "b"])[np.arange(60) % 2]
        rows = (groups == "a")[:, None] + 0.01 * ROWS[:60, :2]
        rows[-1] = 1e20
        result = audit(
            pandas.DataFrame(rows, index=[f"p{i}" for i in range(60)]),
            sensitive_features=groups,
            **QUICK,
        )
        assert result.leakage > 0.45
        assert result.verdict() is Verdict.LEAKS
        assert values(result)["independence p-value"] < 0.1
        assert "'p59'" in str(result)

    @pytest.mark.parametrize("unit", [1.0, 1e154, 1e-170])
    def test_the_unit_of_a_number_changes_nothing(self, unit):
        result = audit(ROWS, sensitive_features=unit * (3 * ROWS[:, 0] + 0.1 * NUMBERS), **QUICK)
        assert result.leakage > 0.9
