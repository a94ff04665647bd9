import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from parafair import TensorData, evaluate_rankings
from tests.reference import rankings as slow

PEOPLE, ITEMS, K = 30, 12, 4


@pytest.fixture(scope="module")
def case():
    """Scores, ratings for training and held-out ones; the last person has none of these."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(PEOPLE, ITEMS))
    kind = random.choice(["train", "test", "open"], size=scores.shape, p=[0.3, 0.3, 0.4])
    kind[-1] = "open"
    values = random.integers(1, 6, size=scores.shape).astype(float)
    train, test = (
        TensorData.from_array(np.where(kind == name, values, np.nan)) for name in ("train", "test")
    )
    return scores, train, test


def by_hand(case, measure, threshold):
    scores, train, test = case
    found = []
    for person in range(PEOPLE):
        held_out = test.values[person].numpy()
        relevant = set(np.flatnonzero(held_out >= threshold))
        rated = set(np.flatnonzero(~np.isnan(train.values[person].numpy())))
        if relevant:
            found.append(measure(slow.recommended(scores[person], rated, ITEMS), relevant))
    return np.array(found)


@pytest.mark.parametrize("threshold", [None, 4.0])
def test_measures_are_means_over_people(case, threshold):
    scores, train, test = case
    found = evaluate_rankings(scores, test, rated=train, k=K, threshold=threshold, bootstraps=10)
    least = 0 if threshold is None else threshold
    slow_ones = {
        f"ndcg@{K}": lambda order, relevant: slow.ndcg(order, relevant, K),
        f"recall@{K}": lambda order, relevant: slow.recall(order, relevant, K),
        "MAP": slow.average_precision,
    }
    for name, measure in slow_ones.items():
        expected = by_hand(case, measure, least)
        assert found.value(name) == pytest.approx(expected.mean())
        (row,) = [score for score in found.scores if score.measure == name]
        assert row.count == len(expected) < PEOPLE


def test_scikit_learn_agrees_if_nothing_is_rated(case):
    scores, _, test = case
    relevant = ~np.isnan(test.values.numpy())[:-1]
    found = evaluate_rankings(scores, test, k=K, bootstraps=10)
    assert found.value(f"ndcg@{K}") == pytest.approx(ndcg_score(relevant, scores[:-1], k=K))
    precisions = [
        average_precision_score(*pair) for pair in zip(relevant, scores[:-1], strict=True)
    ]
    assert found.value("MAP") == pytest.approx(np.mean(precisions))


def test_coverage_is_the_share_of_items_on_any_list(case):
    scores, train, test = case
    found = evaluate_rankings(scores, test, rated=train, k=1, bootstraps=10)
    rated = [set(np.flatnonzero(~row.isnan().numpy())) for row in train.values]
    lists = [slow.recommended(scores[p], rated[p], 1)[0] for p in range(PEOPLE)]
    assert found.value("coverage@1") == len(set(lists)) / ITEMS
    same = evaluate_rankings(np.tile(np.arange(ITEMS), (PEOPLE, 1)), test, k=3, bootstraps=10)
    assert same.value("coverage@3") == 3 / ITEMS


def test_perfect_and_worst_lists():
    test = TensorData.from_array([[5.0, np.nan, np.nan, 4.0]] * 3)
    best = evaluate_rankings([[4.0, 1, 2, 3]] * 3, test, k=2, bootstraps=10)
    worst = evaluate_rankings([[1.0, 3, 4, 2]] * 3, test, k=2, bootstraps=10)
    for name, low in (("ndcg@2", 0), ("recall@2", 0), ("MAP", (1 / 3 + 2 / 4) / 2)):
        assert best.value(name) == 1
        assert worst.value(name) == pytest.approx(low)


def test_ties_are_broken_at_random():
    people = 2000
    test = TensorData.from_array(np.tile([5.0, *[np.nan] * 9], (people, 1)))
    found = evaluate_rankings(np.zeros((people, 10)), test, k=1, bootstraps=10)
    # The standard deviation of a share of 0.1 of 2000 is 0.007.
    assert found.value("recall@1") == pytest.approx(0.1, abs=0.03)


def test_groups_and_their_largest_gap(case):
    scores, train, test = case
    groups = np.array(["a", "b", "c"])[np.arange(PEOPLE) % 3]
    found = evaluate_rankings(
        scores, test, rated=train, sensitive_features=groups, k=K, bootstraps=200
    )
    means = {}
    for group in "abc":
        own = np.flatnonzero(groups == group)
        alone = evaluate_rankings(
            scores[own], test.take(0, own), rated=train.take(0, own), k=K, bootstraps=10
        )
        means[group] = found.value("MAP", group, feature="sensitive")
        assert means[group] == pytest.approx(alone.value("MAP"))
        low, high = found.interval("MAP", group, feature="sensitive")
        assert low < means[group] < high
    first, last = max(means, key=means.get), min(means, key=means.get)
    gap = found.value("MAP gap", f"{first} - {last}", feature="sensitive")
    assert gap == pytest.approx(means[first] - means[last]) == found.gap("MAP")
    assert f"{first} - {last}" in str(found)
    assert str(type(found).from_list(found.to_list())) == str(found)
    with pytest.raises(KeyError, match="no measure 'MAP' of group 'd'"):
        found.interval("MAP", "d")


def test_the_interval_covers_as_it_says():
    random = np.random.default_rng(0)
    test = TensorData.from_array(np.tile([5.0, *[np.nan] * 4], (60, 1)))
    inside = 0
    for seed in range(100):
        scores = random.normal(size=(60, 5))
        found = evaluate_rankings(scores, test, k=1, bootstraps=200, random_state=seed)
        low, high = found.interval("recall@1")
        inside += low <= 0.2 <= high
    assert 85 <= inside <= 100  # 95 expected; percentile intervals of 60 people are a little short


def test_sampled_negatives_rank_relevant_items_among_few():
    scores = np.tile(np.arange(20.0), (200, 1))
    test = TensorData.from_array(np.tile([np.nan] * 10 + [5.0] + [np.nan] * 9, (200, 1)))
    full = evaluate_rankings(scores, test, k=3, bootstraps=10)
    assert full.value("recall@3") == 0  # nine items are better
    few = evaluate_rankings(scores, test, k=3, negatives=4, bootstraps=10)
    # In the first three unless 3 or 4 of 4 drawn from 19 are among the 9 better ones.
    outside = (84 * 10 + 126) / 3876
    assert few.value("recall@3") == pytest.approx(1 - outside, abs=0.09)
    assert not [score for score in few.scores if "coverage" in score.measure]
    every = evaluate_rankings(scores, test, k=3, negatives=19, bootstraps=10)
    assert every.value("MAP") == pytest.approx(full.value("MAP"))


def test_people_are_ranked_in_chunks_and_along_any_mode(case, monkeypatch):
    scores, train, test = case
    whole = evaluate_rankings(scores, test, rated=train, k=K, bootstraps=10)
    monkeypatch.setattr("parafair.audits.rankings.MOST_SCORES", 5 * ITEMS)
    turned = [TensorData.from_array(part.values.T.reshape(3, 4, PEOPLE)) for part in (test, train)]
    parts = evaluate_rankings(
        scores.reshape(PEOPLE, 3, 4), turned[0], rated=turned[1], mode=2, k=K, bootstraps=10
    )
    assert whole.value("MAP") == pytest.approx(parts.value("MAP"))
    assert whole.value(f"coverage@{K}") == parts.value(f"coverage@{K}")


def test_a_group_without_held_out_entries_has_no_numbers(case):
    scores, _, test = case
    groups = np.where(np.arange(PEOPLE) == PEOPLE - 1, "alone", "others")
    found = evaluate_rankings(scores, test, sensitive_features=groups, k=K, bootstraps=10)
    assert np.isnan(found.value("MAP", "alone", feature="sensitive"))
    assert not [score for score in found.scores if "gap" in score.measure]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, got 0"),
        ({"k": 13}, "k must be at most 12, the number of items, got 13"),
        ({"threshold": 6}, "X_test has no entry of at least threshold=6 among"),
        ({"negatives": 12}, "negatives must be at most"),
        ({"negatives": 0}, "negatives must be a whole number of at least 1"),
        ({"scores": np.zeros((3, 2))}, r"scores must have shape \(30, 12\), people first"),
        ({"sensitive_features": ["a", "b"]}, "sensitive_features has 2 rows but scores has 30"),
        ({"rated": TensorData.from_array(np.ones((2, 2)))}, "rated must have the shape"),
        ({"bootstraps": 0}, "bootstraps must be a whole number"),
    ],
)
def test_bad_input_is_refused(case, settings, message):
    scores, _, test = case
    with pytest.raises(ValueError, match=message):
        evaluate_rankings(**{"scores": scores, "X_test": test, **settings})


def test_a_repr_is_one_line_and_html_has_every_row():
    held_out = TensorData.from_array([[np.nan, 5.0], [4.0, np.nan], [np.nan, 1.0]])
    found = evaluate_rankings(np.ones((3, 2)), held_out, k=1, sensitive_features=["<a", "<a", "b"])
    assert repr(found).startswith("Rankings(ndcg@1 ")
    assert "\n" not in repr(found)
    html = found._repr_html_()
    assert html.count("<tr>") == len(found.scores) + 1
    assert "&lt;a" in html
    assert "<a" not in html
