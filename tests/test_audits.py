import json

import numpy as np
import pandas as pd
import pytest

from parafair import audit
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(120, seed=1).numpy().ravel()
ROWS = example_rows(120, 3, seed=0).numpy()


def attackers(result):
    return [row for row in result.rows if row.measure.startswith("attacker")]


def test_an_independent_embedding_leaks_little():
    result = audit(ROWS, GROUPS)
    assert abs(result.leakage) < 0.15
    assert {row.chance for row in attackers(result)} == {0.5}


def test_a_leak_in_a_tiny_column_is_found():
    # The paper's network and KHSIC see the columns as they are; the attackers do not.
    hidden = np.column_stack([1e-6 * GROUPS, 10 * ROWS])
    result = audit(hidden, GROUPS)
    assert result.leakage > 0.45
    measures = {row.measure: row.value for row in result.rows}
    assert measures["network, balanced"] < 0.8
    assert measures["normalized KHSIC"] < 0.2
    assert measures["independence p-value"] < 0.01


def test_numeric_features_are_predicted_by_regression():
    age = ROWS[:, 0] ** 2 + 0.1 * example_rows(120, 1, seed=5).numpy().ravel()
    result = audit(ROWS, pd.Series(age, name="age"))
    scores = {row.measure: row.value for row in attackers(result)}
    assert scores["attacker: forest"] > 0.6  # nonlinear: seen by the forest
    assert scores["attacker: ridge"] < 0.3  # but not by a line


def test_every_feature_has_its_rows():
    table = pd.DataFrame({"gender": np.where(GROUPS, "f", "m"), "age": ROWS[:, 1] * 3})
    result = audit(ROWS, table)
    assert result.rows[0].feature == "gender"
    assert {row.feature for row in result.rows} == {"gender", "age"}


def test_seed_is_honored():
    one, two = audit(ROWS, GROUPS, random_state=3), audit(ROWS, GROUPS, random_state=3)
    assert one == two


def test_large_data_is_sampled_and_says_so():
    result = audit(ROWS, GROUPS, max_people=60)
    assert (result.people, result.of) == (60, 120)
    assert "random sample of 60 of 120 people" in str(result)


def test_rare_groups_survive_sampling():
    groups = np.where(np.arange(120) < 3, "rare", "common")
    result = audit(ROWS, groups, max_people=40)
    assert result.people == 40


def test_an_ignorant_regression_is_no_warning():
    result = audit(ROWS[:60], example_rows(60, 1, seed=9).numpy().ravel())
    assert min(result.advantages) < 0
    assert result.below_chance == 0


def test_an_embedding_that_says_nothing_leaks_nothing():
    result = audit(np.zeros((120, 2)), GROUPS)
    assert result.leakage == pytest.approx(0, abs=1e-12)


def test_one_fold_is_refused():
    with pytest.raises(ValueError, match="folds must be at least 2, got 1"):
        audit(ROWS, GROUPS, folds=1)


def test_prints_as_a_table_and_writes_json():
    result = audit(ROWS, GROUPS)
    text = str(result)
    assert "attacker: forest" in text
    assert f"leakage {result.leakage:.3f}" in text
    assert json.loads(result.to_json())["leakage"] == result.leakage


def test_attackers_below_chance_are_a_warning():
    # Every embedding occurs once in each group: a held-out twin is always guessed wrong.
    twins = np.repeat(example_rows(60, 3, seed=4).numpy(), 2, axis=0)
    result = audit(twins, np.tile(["a", "b"], 60))
    assert min(result.advantages) < -0.1
    assert "below chance: a warning, not a success" in str(result)
    assert "below chance" not in str(audit(ROWS, GROUPS))


def test_groups_of_one_are_refused():
    groups = np.array(["a"] * 119 + ["b"])
    with pytest.raises(ValueError, match="group 'b' of sensitive feature .* only one member"):
        audit(ROWS, groups)
