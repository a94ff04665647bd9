import json

import numpy as np
import pytest

from parafair import FairCP, audit_outputs
from parafair.audits import Verdict
from parafair.audits.outputs import MOST_COLUMNS, highest
from parafair.testing import example_groups, example_rows

GROUPS = example_groups(120, seed=1).numpy().ravel()
SCORES = example_rows(120, 30, seed=0).numpy()
QUICK = {"attackers": ["linear", "kernel-vote"], "permutations": 5, "folds": 3}


def outputs(scores, **settings):
    return audit_outputs(scores, sensitive_features=GROUPS, **{**QUICK, "k": 5, **settings})


def test_scores_and_lists_that_reveal_the_group_leak():
    revealing = SCORES.copy()
    revealing[:, :5] += 6 * GROUPS[:, None]
    found = outputs(revealing)
    assert found.scores.leakage > 0.4
    assert found.lists.leakage > 0.4
    assert found.leakage == max(found.scores.leakage, found.lists.leakage)
    assert found.verdict() is Verdict.LEAKS


def test_lists_may_hide_what_scores_reveal():
    # The group changes the lowest score of each person only.
    scores = SCORES.copy()
    scores[:, 0] = -50 - GROUPS
    found = outputs(scores)
    assert found.scores.leakage > 0.4
    assert found.lists.verdict(0.15) is Verdict.PASSES
    assert found.verdict() is Verdict.LEAKS


def test_lists_have_the_highest_scores_and_ties_follow_the_order():
    found = highest(np.array([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0]]), 2)
    np.testing.assert_array_equal(found, [[0, 1, 0, 1], [1, 1, 0, 0]])


def test_many_items_are_reduced_and_this_is_said():
    wide = example_rows(120, 400, seed=2).numpy() + 3 * np.outer(
        GROUPS, example_rows(400, 1, seed=3)
    )
    found = outputs(wide)
    assert found.scores.leakage > 0.4
    assert f"400 columns were reduced to {MOST_COLUMNS} principal components" in str(found)


def test_the_predictions_of_a_model_are_audited():
    tensor = np.einsum("ir,jr,kr->ijk", *(example_rows(n, 2, seed=n).numpy() for n in (120, 6, 5)))
    model = FairCP(2, method="none").fit(tensor)
    found = outputs(model.inverse_transform(model.embedding_))
    assert found.k == 5
    json.dumps(found.to_dict(), allow_nan=False)
    assert repr(found).startswith("OutputAudit(scores=Audit(")


def test_large_data_is_sampled():
    found = outputs(SCORES, max_people=60)
    assert (found.lists.people, found.lists.population) == (60, 120)
    assert found.scores == outputs(SCORES, max_people=60).scores


@pytest.mark.parametrize(
    ("scores", "change", "message"),
    [
        (SCORES, {"k": 30}, "k must be smaller than the number of items, 30, got 30"),
        (SCORES, {"k": 0}, "k must be a whole number of at least 1, got 0"),
        (SCORES[:, 0], {}, "scores must have people along the first axis"),
        (SCORES[:50], {}, "sensitive_features has 120 rows but the scores has 50"),
    ],
)
def test_bad_outputs_are_refused(scores, change, message):
    with pytest.raises(ValueError, match=message):
        outputs(scores, **change)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": "2"}, "k must be a whole number of at least 1"),
        ({"max_people": None}, "max_people must be a whole number of at least 4"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        outputs(SCORES, **settings)


def test_too_few_people_are_refused():
    with pytest.raises(ValueError, match="scores has 3 rows, but an audit needs at least 4"):
        audit_outputs(SCORES[:3], sensitive_features=GROUPS[:3], **QUICK)
