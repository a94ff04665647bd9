import sys

import numpy as np
import pytest

from parafair import audit
from parafair.testing import example_groups, example_rows

pytest.importorskip("fairlearn")

GROUPS = example_groups(160, seed=1).numpy().ravel()
ROWS = example_rows(160, 3, seed=0).numpy()
BIASED = np.column_stack([ROWS, 2 * GROUPS + 0.3 * ROWS[:, 0]])
QUICK = {"attackers": ["linear"], "repeats": 1, "permutations": 5}


def predictions(rows, groups, target):
    result = audit(rows, sensitive_features=groups, target=target, **QUICK)
    own_lines = [line for line in str(result).splitlines() if line.startswith(" " * 20)]
    assert not own_lines, "explanations stand beside their numbers"
    found = [row for row in result.rows if row.section == "predictions"]
    return {(row.feature, row.measure, row.model): row.value for row in found}


def test_predictions_that_follow_the_groups_are_seen():
    target = GROUPS + 0.3 * ROWS[:, 1] > 0.5
    found = predictions(BIASED, GROUPS, target)
    assert found["sensitive", "demographic parity difference", "linear"] > 0.7
    assert found["sensitive", "mean score difference", "linear"] > 0.5
    assert found["sensitive", "score distance (KS)", "boosting"] > 0.8
    assert found["target", "accuracy", "linear"] > 0.9


def test_predictions_that_ignore_the_groups_are_even():
    found = predictions(ROWS, GROUPS, ROWS[:, 1] > 0)
    assert found["sensitive", "demographic parity difference", "linear"] < 0.25
    assert found["sensitive", "equalized odds difference", "linear"] < 0.2
    assert found["sensitive", "error of 0", "linear"] < 0.1


def test_differences_are_those_of_fairlearn():
    from fairlearn.metrics import demographic_parity_difference

    from parafair.audits.predictions import predict_target, read_target
    from parafair.audits.trials import Plan

    target = np.where(BIASED[:, 3] + ROWS[:, 1] > 1, "yes", "no")
    plan = Plan(folds=5, repeats=1, n_jobs=None, precision=2.0**-52, seed=0)
    one = predict_target(BIASED, read_target(target, 160), plan)[0]
    expected = demographic_parity_difference(
        target == "yes", one.answers == 1, sensitive_features=GROUPS
    )
    from parafair.audits.predictions import _differences

    assert _differences(one, GROUPS.astype(str))[0][1] == pytest.approx(expected)


def test_numeric_targets_and_numeric_features():
    found = predictions(BIASED, ROWS[:, 0], 10 * ROWS[:, 0] + ROWS[:, 2])
    assert found["target", "R squared", "linear"] > 0.9
    assert found["sensitive", "demographic parity difference", "linear"] > 0.9
    assert found["sensitive", "mean score difference", "linear"] > 1.5
    errors = [key for key in found if key[1].startswith("error of") and key[2] == "linear"]
    assert len(errors) == 4  # quarters


@pytest.mark.slow
def test_targets_of_three_classes():
    target = np.digitize(BIASED[:, 3], [0.3, 1.7]).astype(str)
    found = predictions(BIASED, GROUPS, target)
    assert found["sensitive", "demographic parity difference", "linear"] > 0.5
    assert all(np.isfinite(value) for value in found.values())


def test_the_target_keeps_its_name():
    pandas = pytest.importorskip("pandas")
    hired = pandas.Series(ROWS[:, 1] > 0, name="hired")
    result = audit(ROWS, sensitive_features=GROUPS, target=hired, **QUICK)
    assert result.rows[-1].feature == "hired"
    assert "hired" in str(result)
    assert max(map(len, str(result).splitlines())) <= 80


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (ROWS[:, :2], "names must be 2 names|target must hold one value"),
        (ROWS[:50, 0], "target must hold one value for each of the 160 people"),
        (np.ones(160), "target cannot be used: .* constant"),
        (np.array(["a"] * 159 + ["b"]), "class 'b' of target has only one member"),
    ],
)
def test_other_targets_are_refused(target, message):
    with pytest.raises(ValueError, match=message):
        audit(ROWS, sensitive_features=GROUPS, target=target, **QUICK)


def test_a_missing_fairlearn_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn", None)
    with pytest.raises(ImportError, match=r"pip install 'parafair\[fairlearn\]'"):
        audit(ROWS, sensitive_features=GROUPS, target=GROUPS, **QUICK)


def test_groups_of_one_person_are_compared_without_a_warning():
    rows = np.array([[1, -1], [3, 0], [-2, 1], [5, 4], [-3, -5], [-2, 0]])
    found = predictions(rows, ROWS[:6, 0], ["a", "b", "c"] * 2)
    assert 0 <= found["sensitive", "score distance (KS)", "linear"] <= 1


def test_a_target_whose_squares_overflow_is_refused():
    with pytest.raises(ValueError, match="target has numbers whose squares overflow, up to"):
        predictions(ROWS, GROUPS, ROWS[:, 0] * 1e160)
