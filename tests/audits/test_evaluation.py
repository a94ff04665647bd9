import itertools
import json
from math import isnan, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from parafair import SensitiveFeatures, TensorData
from parafair.audits.evaluation import (
    Evaluation,
    evaluate_predictions,
    ks_statistic,
    mean_difference,
    ranking,
)

NAN = float("nan")
HELD = TensorData.from_array([[1.0, 5.0, NAN], [2.0, NAN, NAN], [4.0, 4.0, 3.0], [NAN, NAN, 5.0]])
GUESS = [2.0, 5.0, 2.0, 3.0, 5.0, 1.0, 4.0]
GROUPS = pd.DataFrame({"gender": ["f", "m", "m", "f"]})


def test_errors_overall_and_for_each_group():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS)
    assert found.value("rmse") == pytest.approx(sqrt(8 / 7))
    assert found.value("mae") == pytest.approx(6 / 7)
    assert found.value("rmse", "f", feature="gender") == pytest.approx(sqrt(2 / 3))
    assert found.value("mae", "m", feature="gender") == pytest.approx(1)
    counts = {(s.measure, s.group): s.count for s in found.scores}
    assert (counts["rmse", "all"], counts["rmse", "f"], counts["rmse", "m"]) == (7, 3, 4)


def test_plain_values_come_back():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS)
    assert Evaluation.from_list(json.loads(json.dumps(found.to_list(), allow_nan=False))) == found
    nobody = evaluate_predictions(HELD.keep([0]), GUESS[:1], sensitive_features=GROUPS)
    assert None in [score["value"] for score in nobody.to_list()]
    assert isnan(Evaluation.from_list(nobody.to_list()).value("rmse", "m", feature="gender"))


def test_the_gap_is_that_of_the_feature_whose_groups_differ_most():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS)
    both = [found.value("rmse", group, feature="gender") for group in "fm"]
    assert found.gap("rmse") == pytest.approx(abs(both[0] - both[1]))
    assert isnan(evaluate_predictions(HELD, GUESS).gap("rmse"))


def test_differences_between_groups():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS)
    women, men = [2, 5, 4], [2, 3, 5, 1]
    assert found.value("MAD", feature="gender") == pytest.approx(abs(11 / 3 - 11 / 4))
    steps = [abs(np.mean(np.array(women) <= x) - np.mean(np.array(men) <= x)) for x in range(6)]
    assert found.value("KS", feature="gender") == pytest.approx(max(steps))
    assert found.largest("KS") == found.value("KS", feature="gender")
    assert found.value("area", feature="gender") == pytest.approx(sum(steps))
    assert isnan(evaluate_predictions(HELD, GUESS).largest("KS"))
    assert mean_difference([1, 2], [4]) == 2.5
    assert ks_statistic([1, 2], [3, 4]) == 1


def test_the_two_groups_that_differ_most_are_named():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=["a", "b", "b", "c"])
    (mad,) = [score for score in found.scores if score.measure == "MAD"]
    means = {"a": 3.5, "b": 11 / 4, "c": 4.0}
    assert mad.group == "b - c"
    assert mad.value == pytest.approx(means["c"] - means["b"])
    assert mad.count == 5


def test_numeric_features_are_cut_and_unknown_people_are_in_no_group():
    ages = SensitiveFeatures.of([20.5, NAN, 30.5, 40.5], missing="exclude")
    found = evaluate_predictions(HELD, GUESS, sensitive_features=ages)
    groups = {s.group: s.count for s in found.scores if s.measure == "rmse"}
    assert groups == {"all": 7, "20.5 to 20.5": 2, "30.5 to 30.5": 3, "40.5 to 40.5": 1}


def test_recommendations_with_a_stated_threshold():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS, threshold=4, k=1)
    # Relevant: 5 of person 0, both 4 of person 2, 5 of person 3; each has one on top.
    assert found.value("precision@1") == 1
    assert found.value("recall@1") == pytest.approx((1 + 0.5 + 1) / 3)
    assert found.value("recall@1", "m", feature="gender") == 0.5
    counts = {s.group: s.count for s in found.scores if s.measure == "recall@1"}
    assert counts == {"all": 3, "f": 2, "m": 1}
    assert isnan(evaluate_predictions(HELD, GUESS, threshold=9).value("precision@10"))


def slow_ranking(people, relevant, predicted, k):
    """The obvious way: an average over all orders that predictions allow."""
    scores = []
    for person in set(people):
        mine = [i for i, other in enumerate(people) if other == person]
        wanted = sum(relevant[i] for i in mine)
        if not wanted:
            continue
        precisions, recalls = [], []
        for order in itertools.permutations(mine):
            if any(predicted[a] < predicted[b] for a, b in itertools.pairwise(order)):
                continue
            hits = sum(relevant[i] for i in order[:k])
            precisions.append(hits / min(k, len(mine)))
            recalls.append(hits / wanted)
        scores.append((np.mean(precisions), np.mean(recalls)))
    return np.mean(scores, axis=0) if scores else (NAN, NAN)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=6),
    st.integers(1, 4),
)
def test_ranking_equals_the_obvious_way(entries, k):
    assume(any(relevant for _, relevant, _ in entries))
    people, relevant, predicted = zip(*entries, strict=True)
    precision, recall, _ = ranking(people, relevant, predicted, k=k)
    np.testing.assert_allclose((precision, recall), slow_ranking(people, relevant, predicted, k))


@pytest.mark.parametrize(
    ("people", "relevant", "predicted", "message"),
    [
        ([], [], [], "relevant must be a list of at least one number"),
        ([0, 0], [0, 0], [1.0, 2.0], "relevant has no True among 2 entries"),
        ([0, 0], [0.5, 1], [1.0, 2.0], "relevant must hold True or False, or 1 or 0"),
        ([0, 0], [0, 1], [1.0], "people, relevant and predicted must have equal lengths"),
        ([0, 0], [0, 1], [1.0, NAN], "predicted has 1 NaN or infinite entries"),
        (["a", None], [0, 1], [1.0, 2.0], "people must be a list of whole numbers"),
    ],
)
def test_what_cannot_be_ranked_is_refused(people, relevant, predicted, message):
    with pytest.raises(ValueError, match=message):
        ranking(np.array(people, None if people else int), relevant, predicted, k=1)


def test_lists_longer_than_all_entries_have_all():
    assert ranking([0, 0], [True, False], [1.0, 2.0], k=10**30) == (0.5, 1.0, 1)


@pytest.mark.parametrize("compare", [mean_difference, ks_statistic])
def test_only_finite_numbers_are_compared(compare):
    with pytest.raises(TypeError, match="first must hold numbers, got an array of"):
        compare(["a"], [1.0])
    with pytest.raises(ValueError, match="second has 1 NaN or infinite entries"):
        compare([1.0], [1.0, NAN])
    with pytest.raises(ValueError, match="second must be a list of at least one number"):
        compare([1.0], [])


def test_the_distance_of_distributions_is_that_of_scipy():
    first, second = np.random.default_rng(0).integers(0, 9, size=(2, 30))
    assert ks_statistic(first, second[:20]) == pytest.approx(ks_2samp(first, second[:20]).statistic)


@pytest.mark.parametrize("threshold", [NAN, "a", [1], np.inf])
def test_a_threshold_is_a_finite_number(threshold):
    with pytest.raises(ValueError, match="threshold must be a finite number, got"):
        evaluate_predictions(HELD, GUESS, threshold=threshold)


def test_held_out_entries_are_tensor_data():
    with pytest.raises(TypeError, match="X_test must be a TensorData, got 1.0; use TensorData"):
        evaluate_predictions(1.0, GUESS)


def test_large_errors_do_not_overflow():
    found = evaluate_predictions(HELD, np.full(7, 3e200))
    assert found.value("rmse") == pytest.approx(3e200)


def test_a_table_of_scores():
    found = evaluate_predictions(HELD, GUESS, sensitive_features=GROUPS)
    assert list(found.to_frame()) == ["measure", "feature", "group", "value", "count"]
    assert len(found.to_frame()) == len(found.scores) == 9
    assert str(found).splitlines()[1].split() == ["rmse", "all", "1.069", "7"]
    with pytest.raises(KeyError, match="no measure 'rmsd' of group 'all'"):
        found.value("rmsd")


@pytest.mark.parametrize(
    ("predicted", "groups", "message"),
    [
        (GUESS[:-1], None, r"predicted must have shape \(7,\).* got \(6,\)"),
        ([NAN, *GUESS[1:]], None, "predicted has 1 NaN or infinite values"),
        (GUESS, ["a", "b"], "sensitive_features has 2 rows but mode 'mode_0' has 4 labels"),
    ],
)
def test_bad_arguments_are_refused(predicted, groups, message):
    with pytest.raises(ValueError, match=message):
        evaluate_predictions(HELD, predicted, sensitive_features=groups)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        evaluate_predictions(HELD, GUESS, threshold=1, k=0)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_complex_predictions_are_refused(kind):
    data = TensorData.from_array(np.eye(2))
    with pytest.raises(TypeError, match="predicted must hold (real )?numbers, got"):
        evaluate_predictions(data, kind(np.ones(4) + 1j))


def test_the_repr_is_one_short_line():
    found = evaluate_predictions(TensorData.from_array([[1.0, 2.0]]), [1.0, 4.0])
    assert repr(found) == "Evaluation(rmse 1.414, mae 1)"
