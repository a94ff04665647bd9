import numpy as np
import pytest
from scipy.stats import pearsonr

from parafair.audits.kernel_vote import KernelVoteClassifier, KernelVoteRegressor
from parafair.testing import example_rows

ROWS = example_rows(120, 3, seed=0).numpy()
GROUPS = (ROWS[:, 0] > 0).astype(int)
TWINS = np.repeat(ROWS, 2, axis=0) + 1e-4 * example_rows(240, 3, seed=1).numpy()


def slow_votes(classifier, squares, own):
    """The mean kernel of each person with each class, without the person."""
    votes = np.zeros((len(squares), 2))
    for i, row in enumerate(squares):
        for code in (0, 1):
            others = [j for j in range(len(row)) if GROUPS[j] == code and not (own and i == j)]
            votes[i, code] = np.mean([np.exp(-classifier.gamma_ * row[j]) for j in others])
    return np.log(votes)


@pytest.mark.parametrize("own", [True, False])
def test_votes_are_those_of_the_obvious_loop(own):
    classifier = KernelVoteClassifier().fit(ROWS, GROUPS)
    classifier.gamma_ = 0.1
    squares = ((ROWS[:, None] - ROWS[None]) ** 2).sum(-1)
    given = squares + np.diag(np.full(120, np.inf)) if own else squares
    found = classifier._votes(given, 0.1, leave_one_out=own)
    expected = slow_votes(classifier, squares, own)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-9)


def test_neighbors_of_the_same_group_are_found():
    vote = KernelVoteClassifier().fit(ROWS[:80], GROUPS[:80])
    assert (vote.predict(ROWS[80:]) == GROUPS[80:]).mean() > 0.85
    assert vote.predict_proba(ROWS[80:]).sum(1) == pytest.approx(1)


def test_people_matched_across_groups_are_guessed_wrong():
    groups = np.tile(["a", "b"], 120)
    train = np.random.RandomState(0).permutation(240) < 200
    vote = KernelVoteClassifier().fit(TWINS[train], groups[train])
    assert (vote.predict(TWINS[~train]) == groups[~train]).mean() < 0.25


def test_numbers_of_neighbors_are_averaged():
    numbers = ROWS[:, 0] + 0.5 * ROWS[:, 1] ** 2
    found = KernelVoteRegressor().fit(ROWS[:80], numbers[:80]).predict(ROWS[80:])
    assert pearsonr(found, numbers[80:]).statistic > 0.7


def test_numbers_of_matched_people_are_guessed_backwards():
    numbers = np.tile([1.0, -1.0], 120) * np.repeat(example_rows(120, 1, seed=3).numpy().ravel(), 2)
    train = np.random.RandomState(0).permutation(240) < 200
    found = KernelVoteRegressor().fit(TWINS[train], numbers[train]).predict(TWINS[~train])
    assert pearsonr(found, numbers[~train]).statistic < -0.4


@pytest.mark.parametrize("rows", [np.zeros((6, 2)), np.full((6, 1), 1e30), 1e-200 * ROWS[:6]])
def test_equal_people_give_numbers(rows):
    groups, numbers = np.arange(6) % 2, np.arange(6.0)
    assert np.isfinite(KernelVoteClassifier().fit(rows, groups).predict_proba(rows)).all()
    assert np.isfinite(KernelVoteRegressor().fit(rows, numbers).predict(rows)).all()
