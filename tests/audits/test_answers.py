import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata
from sklearn.metrics import balanced_accuracy_score, r2_score

from parafair.audits.answers import GroupAnswers, NumberAnswers

RANDOM = np.random.RandomState(0)
N, FOLDS, ATTACKERS = 90, 3, 4
NUMBER = np.arange(N) % FOLDS
CODES = RANDOM.randint(3, size=N)
TRUTH = RANDOM.normal(size=N)
ONES = np.ones((1, N))


def group_answers(outer, inner=None, codes=CODES, **folds):
    outer = np.asarray(outer, float)[..., None]
    inner = np.stack([outer] * FOLDS) if inner is None else np.asarray(inner, float)[..., None]
    return GroupAnswers(
        folds.get("number", NUMBER), folds.get("tested", tuple(range(FOLDS))), outer, inner, codes
    )


def number_answers(predicted, inner):
    def keep(guess):
        kept = np.zeros((*guess.shape, 3))
        kept[..., 0] = (guess - TRUTH[:, None]) ** 2
        for fold in range(FOLDS):
            own = fold == NUMBER
            kept[own, :, 1] = guess[own] - guess[own].mean(0)
            kept[own, :, 2] = (rankdata(guess[own], axis=0) - 0.5) / own.sum() - 0.5
        return kept

    inside = np.stack([keep(one) for one in inner])
    return NumberAnswers(NUMBER, tuple(range(FOLDS)), keep(predicted), inside, TRUTH)


def slow_group_gain(answers):
    """Choose for each fold by the inner answers about the others; pool the chosen answers."""
    groups = range(answers.codes.max() + 1)
    wrong = np.zeros(len(answers.codes))
    for place, fold in enumerate(answers.tested):
        options = []
        for attacker in range(answers.outer.shape[1]):
            inner = answers.inner[place, :, attacker, 0]
            others = answers.number != fold
            error = np.mean([inner[others & (answers.codes == g)].mean() for g in groups])
            outer = answers.outer[:, attacker, 0]
            options.append((1 - error - answers.chance, outer))
            turned = error / (len(groups) - 1) - answers.chance
            options.append((turned, 1 - outer / (len(groups) - 1)))
        best, answer = max(options, key=lambda option: option[0])
        own = answers.number == fold
        wrong[own] = answer[own] if best > 0 else 1 - answers.chance
    error = np.mean([wrong[answers.codes == g].mean() for g in groups])
    return 1 - error - answers.chance


def test_scores_are_balanced_accuracies():
    guess = RANDOM.randint(3, size=(N, ATTACKERS))
    found = group_answers(guess != CODES[:, None]).scores(ONES)[0]
    expected = [balanced_accuracy_score(CODES, column) for column in guess.T]
    np.testing.assert_allclose(found, expected)


def test_scores_of_numbers_are_r_squared_and_rank_correlations():
    guess = TRUTH[:, None] + RANDOM.normal(size=(N, 2))
    answers = number_answers(guess, [guess] * FOLDS)
    found = answers.scores(ONES)[0]
    np.testing.assert_allclose(found[:2], [r2_score(TRUTH, column) for column in guess.T])
    ranks = answers.outer[..., 2]
    expected = [pearsonr(rankdata(TRUTH), column).statistic for column in ranks.T]
    np.testing.assert_allclose(found[2:], expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_is_that_of_the_obvious_loop(seed):
    random = np.random.RandomState(seed)
    outer = random.randint(2, size=(N, ATTACKERS))
    answers = group_answers(outer, random.randint(2, size=(FOLDS, N, ATTACKERS)))
    assert answers.gain(ONES, ONES)[0] == pytest.approx(slow_group_gain(answers))


def test_integer_weights_are_copies_of_people():
    outer = RANDOM.randint(2, size=(N, ATTACKERS))
    inner = RANDOM.randint(2, size=(FOLDS, N, ATTACKERS))
    counts = RANDOM.randint(1, 4, size=N)
    copies = np.repeat(np.arange(N), counts)
    weighted = group_answers(outer, inner).gain(counts[None].astype(float), counts[None] * 1.0)
    repeated = group_answers(outer[copies], inner[:, copies], CODES[copies], number=NUMBER[copies])
    ones = np.ones((1, len(copies)))
    assert weighted[0] == pytest.approx(repeated.gain(ones, ones)[0])


def test_an_attacker_who_is_always_wrong_is_turned_around():
    codes = np.arange(N) % 2
    number = np.arange(N) // 2 % FOLDS
    answers = group_answers(np.ones((N, 1)), codes=codes, number=number)
    assert answers.gain(ONES, ONES)[0] == pytest.approx(0.5)
    assert group_answers(np.ones((N, 1))).gain(ONES, ONES)[0] == pytest.approx(1 / 2 - 1 / 3)


def test_an_attacker_who_learns_nothing_guesses():
    codes = np.arange(N) % 2
    half = np.full((N, 1), 0.5)
    answers = group_answers(half, codes=codes, number=np.arange(N) // 2 % FOLDS)
    assert answers.gain(ONES, ONES)[0] == pytest.approx(0, abs=1e-12)


def test_the_choice_is_not_made_by_the_tested_people():
    # Inside the first attacker is right; outside the second.
    outer = np.column_stack([np.ones(N), np.zeros(N)])
    answers = group_answers(outer, np.stack([1 - outer] * FOLDS))
    assert answers.gain(ONES, ONES)[0] == pytest.approx(-1 / 3)


def test_a_number_predicted_backwards_is_turned_around():
    guess = -TRUTH[:, None] + 0.1 * RANDOM.normal(size=(N, 1))
    answers = number_answers(guess, [guess] * FOLDS)
    assert answers.scores(ONES)[0][0] < 0
    assert answers.gain(ONES, ONES)[0] > 0.9
    assert number_answers(guess, [-guess] * FOLDS).gain(ONES, ONES)[0] < -0.9


def test_constant_predictions_gain_nothing():
    guess = np.full((N, 2), 7.0)
    assert number_answers(guess, [guess] * FOLDS).gain(ONES, ONES)[0] == 0


def test_new_people_do_not_choose():
    number = np.where(np.arange(N) < 60, np.arange(N) % 2, 2)
    codes = np.arange(N) // 2 % 2
    outer = np.zeros((N, 2))
    outer[:, 1] = 1
    inner = outer[None, :, ::-1].copy()
    answers = group_answers(outer, inner, codes, number=number, tested=(2,))
    # The known people choose the second attacker, which is wrong about all new people.
    assert answers.gain(ONES, ONES)[0] == pytest.approx(-0.5)
    np.testing.assert_allclose(answers.scores(ONES)[0], [1, 0])
