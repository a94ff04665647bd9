"""Measures of predicted scores, against slow versions and SciPy."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

from parafair import FairCP, compare_scores
from parafair.audits.evaluation import area_between
from parafair.audits.scores import (
    bhattacharyya_distance,
    histogram_information,
    normal_information,
)
from tests.reference import scores as slow

RANDOM = np.random.default_rng(0)
FIRST, SECOND = RANDOM.normal(0, 1, 60), RANDOM.normal(0.7, 2, 45)
THIRD = RANDOM.normal(-1, 1, 20)


def test_area_is_the_wasserstein_distance():
    assert area_between(FIRST, SECOND) == pytest.approx(stats.wasserstein_distance(FIRST, SECOND))
    assert area_between(FIRST, FIRST + 3) == pytest.approx(3)
    tied = np.round(FIRST)
    assert area_between(tied, SECOND) == pytest.approx(stats.wasserstein_distance(tied, SECOND))


def test_normal_measures_are_the_published_formulas():
    assert bhattacharyya_distance(FIRST, SECOND) == pytest.approx(
        slow.bhattacharyya([FIRST, SECOND])
    )
    parts = [FIRST, SECOND, THIRD]
    assert normal_information(parts) == pytest.approx(slow.mutual_information(parts))
    assert normal_information([FIRST, FIRST]) == pytest.approx(0, abs=1e-9)


def test_histogram_information_counts_bins():
    edges = np.array([-1.0, 0.0, 1.5])
    for parts in ([FIRST, SECOND], [FIRST, SECOND, THIRD]):
        found = histogram_information(parts, edges)
        assert found == pytest.approx(slow.histogram_information(parts, edges))
    assert histogram_information([np.zeros(5), np.ones(5)], np.array([0.5])) == pytest.approx(
        np.log(2)
    )
    # Equally many scores in each bin.
    edges = np.quantile(np.concatenate([FIRST, SECOND]), [0.25, 0.5, 0.75])
    assert histogram_information([FIRST, SECOND], 4) == pytest.approx(
        slow.histogram_information([FIRST, SECOND], edges)
    )


def test_all_measures_of_a_table():
    scores = RANDOM.normal(size=(30, 4))
    groups = np.resize(["a", "b", "c"], 30)
    scores[groups == "c"] += 2
    scores[::5, 1] = np.nan
    (found,) = compare_scores(scores, sensitive_features=groups)
    parts = [scores[groups == g] for g in "abc"]
    parts = [part[~np.isnan(part)] for part in parts]
    pairs = [(parts[0], parts[1]), (parts[0], parts[2]), (parts[1], parts[2])]
    assert found.scores == sum(map(len, parts))
    assert found.ks == pytest.approx(max(stats.ks_2samp(*pair).statistic for pair in pairs))
    assert found.area == pytest.approx(max(stats.wasserstein_distance(*pair) for pair in pairs))
    assert found.mean_difference == pytest.approx(max(abs(a.mean() - b.mean()) for a, b in pairs))
    assert found.bhattacharyya == pytest.approx(max(slow.bhattacharyya(pair) for pair in pairs))
    assert found.normal_information == pytest.approx(slow.mutual_information(parts))
    json.dumps(found.to_dict(), allow_nan=False)
    assert "KS" in str(found)


def test_one_score_per_person_and_several_features():
    frame = {"group": np.resize(["a", "b"], 40), "age": np.linspace(20, 60, 40)}
    pandas = pytest.importorskip("pandas")
    found = compare_scores(np.arange(40.0), sensitive_features=pandas.DataFrame(frame))
    assert [one.feature for one in found] == ["group", "age"]
    assert found[1].ks == 1.0  # the oldest quarter has the highest scores


def test_people_without_features_are_left_out():
    from parafair import SensitiveFeatures

    groups = SensitiveFeatures.of(["a", "b", None, "b"], missing="exclude")
    (found,) = compare_scores([1.0, 2.0, 99.0, 3.0], sensitive_features=groups)
    assert (found.scores, found.mean_difference) == (3, 1.5)


def test_pressing_harder_makes_scores_of_groups_more_alike():
    random = np.random.default_rng(1)
    groups = np.repeat(["a", "b", "c"], 40)
    shift = np.repeat([0.0, 0.5, 1.0], 40)
    rows = random.normal(size=(120, 2)) * np.repeat([1.0, 1.0, 2.0], 40)[:, None] + shift[:, None]
    values = np.einsum("ir,jr,kr->ijk", rows, *(random.uniform(0.5, 1, (n, 2)) for n in (6, 5)))
    values += random.normal(scale=0.1, size=values.shape)
    values[random.random(values.shape) < 0.3] = np.nan

    def fit(method, strength):
        model = FairCP(2, method=method, strength=strength, ridge=0.1, n_init=1, tol=3e-4)
        model.fit(values, sensitive_features=groups)
        scores = model.inverse_transform(model.embedding_)
        seen = np.where(np.isnan(values), np.nan, scores)
        return compare_scores(seen, sensitive_features=groups)[0], model.fit_.residual

    plain, close = fit("none", None)
    judged = {
        "mean-matching": "mean_difference",
        "bhattacharyya": "ks",
        "mutual-information": "ks",
    }
    for method, measure in judged.items():
        zero, residual = fit(method, 0.0)
        assert residual == pytest.approx(close, rel=1e-3)
        assert zero.ks == pytest.approx(plain.ks, abs=0.01)
        found = [fit(method, strength) for strength in (1.0, 100.0)]
        differences = [getattr(one, measure) for one in (plain, found[0][0], found[1][0])]
        assert differences[0] > differences[1] > differences[2]
        assert differences[2] < 0.5 * differences[0]
        assert found[1][1] < 0.5  # the fit is not lost


@pytest.mark.parametrize(
    ("scores", "change", "message"),
    [
        (np.zeros(3), {}, "sensitive_features has 4 rows but scores has 3"),
        (np.array([1, 2, np.inf, 3]), {}, "scores has 1 infinite entries"),
        (np.array([1, np.nan, 1, np.nan]), {}, "at least two groups"),
        (np.full(4, 1e200), {}, "squares overflow"),
        (np.zeros(4), {"bins": 1}, "bins must be a whole number"),
        (np.zeros(4), {"bins": [np.nan]}, "bins must be finite edges"),
        (np.zeros(4), {"bins": [[1.0]]}, "list of edges"),
        (torch.tensor(1.0), {}, "people along the first axis"),
    ],
)
def test_bad_scores_are_refused(scores, change, message):
    with pytest.raises(ValueError, match=message):
        compare_scores(scores, sensitive_features=["a", "b", "a", "b"], **change)
