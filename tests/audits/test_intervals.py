import numpy as np
import pytest

from parafair.audits.answers import GroupAnswers
from parafair.audits.intervals import draw_people, inflate, leakage, simultaneous

GROUPS = (np.arange(100) < 30).astype(int)
FOLDS = 5


def guesses(wrong, groups=GROUPS):
    outer = np.asarray(wrong, float)[..., None]
    number = np.random.RandomState(0).permutation(len(groups)) % FOLDS
    inner = np.stack([outer] * FOLDS)
    return [GroupAnswers(number, tuple(range(FOLDS)), outer, inner, groups)]


def bounds(wrong, groups=GROUPS):
    return simultaneous(guesses(wrong, groups), draw_people(groups, 0), inflate(FOLDS))


def leaked(wrong, groups=GROUPS, seed=0):
    return leakage(guesses(wrong, groups), draw_people(groups, seed), inflate(FOLDS))


def coin(attackers, seed):
    return np.random.RandomState(seed).randint(2, size=(100, attackers))


def test_bootstraps_keep_the_size_of_every_group():
    draws = draw_people(GROUPS, 0)
    assert (draws[:, GROUPS == 1].sum(1) == 30).all()
    assert (draws[:, GROUPS == 0].sum(1) == 70).all()


def test_more_attackers_make_wider_intervals_but_copies_do_not():
    def width(wrong):
        _, low, high = bounds(wrong)
        return (high - low)[0]

    wrong = coin(20, seed=1)
    assert width(wrong) > 1.3 * width(wrong[:, :1])
    copies = np.repeat(wrong[:, :1], 20, axis=1)
    assert width(copies) == pytest.approx(width(wrong[:, :1]))


@pytest.mark.parametrize("always_right", [False, True])
def test_equal_answers_do_not_make_intervals_of_no_width(always_right):
    _, low, high = bounds(np.zeros((100, 1)) if always_right else GROUPS[:, None])
    assert high[0] - low[0] > 0.02
    assert (low[0] > 0.5) == always_right


def test_a_handful_of_people_proves_nothing():
    _, low, _ = bounds(np.zeros((4, 1)), np.array([0, 0, 1, 1]))
    assert low[0] < 0.5


def test_folds_that_share_people_make_wider_intervals():
    assert inflate(5) == pytest.approx(1.5)
    assert inflate(None) == 1


def test_leakage_of_many_coins_is_not_that_of_the_luckiest():
    values = []
    for seed in range(30):
        wrong = coin(14, seed)
        values.append(((1 - wrong).mean(0).max() - 0.5, *leaked(wrong, seed=seed)))
    luckiest, found, low, high = np.transpose(values)
    assert luckiest.mean() > 0.07
    assert abs(found.mean()) < 0.02
    assert np.mean((low <= 0) & (high >= 0)) >= 0.95


def test_leakage_of_a_perfect_attacker_is_everything():
    wrong = np.column_stack([coin(1, 0), np.zeros(100)])
    assert leaked(wrong) == pytest.approx((0.5, 0.5, 0.5))


def test_leakage_of_an_attacker_who_is_always_wrong_is_everything():
    assert leaked(np.ones((100, 3))) == pytest.approx((0.5, 0.5, 0.5))


def test_two_members_are_enough():
    groups = np.array([0, 0] + [1] * 20)
    wrong = np.zeros((22, 2))
    assert np.isfinite(leaked(wrong, groups)).all()
    assert np.isfinite(bounds(wrong, groups)).all()
