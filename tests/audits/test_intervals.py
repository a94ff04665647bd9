import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, r2_score

from parafair.audits.intervals import Losses, draw_people, simultaneous, strongest

GROUPS = (np.arange(100) < 30).astype(int)


def guesses(losses, groups=GROUPS):
    return Losses(np.asarray(losses, float), np.ones(len(groups)), groups, 0.5, 5)


def coin(attackers, seed):
    return np.random.RandomState(seed).randint(2, size=(100, attackers))


def test_scores_are_balanced_accuracies():
    wrong = coin(3, seed=0)
    expected = [balanced_accuracy_score(GROUPS, GROUPS ^ column) for column in wrong.T]
    np.testing.assert_allclose(guesses(wrong).values, expected)


def test_scores_of_numbers_are_r_squared():
    truth, guess = np.random.RandomState(0).normal(size=(2, 50))
    table = Losses(
        (truth - guess)[:, None] ** 2,
        (truth - truth.mean()) ** 2,
        np.zeros(50, dtype=int),
        0.0,
        5,
    )
    np.testing.assert_allclose(table.values, [r2_score(truth, guess)])


def test_bootstraps_keep_the_size_of_every_group():
    draws = draw_people(GROUPS, 0)
    assert (draws[:, GROUPS == 1].sum(1) == 30).all()
    assert (draws[:, GROUPS == 0].sum(1) == 70).all()


def test_more_attackers_make_wider_intervals_but_copies_do_not():
    draws, wrong = draw_people(GROUPS, 0), coin(20, seed=1)

    def width(losses):
        low, high = simultaneous(guesses(losses), draws)
        return (high - low)[0]

    assert width(wrong) > 1.3 * width(wrong[:, :1])
    copies = np.repeat(wrong[:, :1], 20, axis=1)
    assert width(copies) == pytest.approx(width(wrong[:, :1]))


@pytest.mark.parametrize("always_right", [False, True])
def test_equal_answers_do_not_make_intervals_of_no_width(always_right):
    wrong = np.zeros((100, 1)) if always_right else GROUPS[:, None]
    low, high = simultaneous(guesses(wrong), draw_people(GROUPS, 0))
    assert high[0] - low[0] > 0.02
    assert (low[0] > 0.5) == always_right


def test_a_handful_of_people_proves_nothing():
    groups = np.array([0, 0, 1, 1])
    low, _ = simultaneous(guesses(np.zeros((4, 1)), groups), draw_people(groups, 0))
    assert low[0] < 0.5


def test_leakage_of_many_coins_is_not_that_of_the_luckiest():
    values = []
    for seed in range(30):
        wrong = coin(14, seed)
        values.append(
            (
                guesses(wrong).values.max() - 0.5,
                *strongest(guesses(wrong), draw_people(GROUPS, seed)),
            )
        )
    luckiest, leakage, low, high = np.transpose(values)
    assert luckiest.mean() > 0.07
    assert abs(leakage.mean()) < 0.02
    assert np.mean((low <= 0) & (high >= 0)) >= 0.95


def test_leakage_of_a_perfect_attacker_is_everything():
    wrong = np.column_stack([coin(1, 0), np.zeros(100)])
    assert strongest(guesses(wrong), draw_people(GROUPS, 0)) == pytest.approx((0.5, 0.5, 0.5))


def test_attackers_below_chance_are_not_picked():
    value, low, high = strongest(guesses(np.ones((100, 3))), draw_people(GROUPS, 0))
    assert value == low == high == pytest.approx(0)


def test_two_members_are_enough():
    groups = np.array([0, 0] + [1] * 20)
    table = guesses(np.zeros((22, 2)), groups)
    assert all(np.isfinite(strongest(table, draw_people(groups, 0))))
    assert np.isfinite(simultaneous(table, draw_people(groups, 0))).all()
