import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from parafair.audits.attackers import ATTACKERS, Attacker, PriorCorrected, choose
from parafair.testing import example_rows

ROWS = example_rows(80, 4, seed=0).numpy()


@pytest.mark.parametrize("name", ATTACKERS)
def test_every_attacker_guesses_categories_and_numbers(name):
    groups = (ROWS[:, 0] > 0.7).astype(int)  # unbalanced
    model = ATTACKERS[name].make("categorical", 0).fit(ROWS, groups)
    guesses = model.predict(ROWS)
    assert min((guesses == groups)[groups == g].mean() for g in (0, 1)) > 0.6
    numbers = 100 * ROWS[:, 0]
    model = ATTACKERS[name].make("numeric", 0).fit(ROWS, numbers)
    assert np.corrcoef(model.predict(ROWS), numbers)[0, 1] > 0.6


def test_even_odds_do_not_favor_large_groups():
    groups = (np.arange(80) < 8).astype(int)
    alone = KNeighborsClassifier(15).fit(ROWS, groups)
    assert alone.predict(ROWS).sum() == 0
    even = PriorCorrected(KNeighborsClassifier(15)).fit(ROWS, groups)
    assert even.predict(ROWS)[:8].mean() > 0.5
    np.testing.assert_array_equal(even.predict_proba(ROWS), alone.predict_proba(ROWS))


def test_attackers_are_chosen_by_name():
    assert list(choose(None)) == list(ATTACKERS)
    assert list(choose(["svm", "linear"])) == ["svm", "linear"]
    assert list(choose("forest")) == ["forest"]


def test_own_estimators_are_copied_and_seeded():
    tree = DecisionTreeClassifier()
    attacker = choose({"tree": tree, "forest": ATTACKERS["forest"]})["tree"]
    made = attacker.make("categorical", 7)
    assert made is not tree
    assert made.random_state == 7
    assert attacker.guesses("categorical")
    assert not attacker.guesses("numeric")
    assert Attacker.of("line", LinearRegression()).guesses("numeric")
    assert choose({"bayes": GaussianNB()})["bayes"].make("categorical", 0).get_params()


@pytest.mark.parametrize(
    ("attackers", "error", "message"),
    [
        (["forrest"], ValueError, "every name in attackers must be one of .*; got 'forrest'; did"),
        ([], ValueError, "attackers is empty; name at least one of linear"),
        ({}, ValueError, "attackers is empty"),
        ({"mine": object()}, TypeError, "attacker 'mine' must be a scikit-learn classifier"),
    ],
)
def test_other_attackers_are_refused(attackers, error, message):
    with pytest.raises(error, match=message):
        choose(attackers)


def test_a_missing_model_is_an_error():
    with pytest.raises(ValueError, match="no model for numeric features"):
        Attacker.of("bayes", GaussianNB()).make("numeric", 0)
