import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from parafair.audits.attacker import STAGES, Attacker
from parafair.audits.attackers import ATTACKERS, panel, resolve_attackers
from parafair.audits.estimators import NeighborsRegressor, PriorCorrected
from parafair.testing import AttackerContract, example_rows

ROWS = example_rows(80, 4, seed=0).numpy()


class TestRegistered(AttackerContract):
    @pytest.fixture(params=ATTACKERS)
    def attacker(self, request):
        return ATTACKERS[request.param]

    def test_predicts_categories_and_numbers(self, attacker):
        assert self.kinds(attacker) == ["categorical", "numeric"]


def test_panels_include_the_panels_before_them():
    quick, thorough, slow = map(panel, STAGES)
    assert quick == ("linear", "svm", "kernel-vote")
    assert thorough == (*quick, "forest", "boosting", "neighbors")
    assert slow == tuple(ATTACKERS)


def test_a_registered_attacker_joins_the_panels_and_the_default(monkeypatch):
    bayes = Attacker(lambda seed: GaussianNB(), None, stage="thorough")
    monkeypatch.setitem(ATTACKERS, "bayes", bayes)
    assert "bayes" not in panel("quick")
    assert "bayes" in panel("thorough")
    assert resolve_attackers(None)["bayes"] is bayes


def test_unknown_stages_are_refused():
    with pytest.raises(ValueError, match="stage must be one of quick, thorough, slow; got 'fast'"):
        panel("fast")
    with pytest.raises(ValueError, match="stage must be one of quick, thorough, slow; got 'fast'"):
        Attacker(lambda seed: GaussianNB(), None, stage="fast")


def test_an_attacker_without_a_model_is_refused():
    with pytest.raises(ValueError, match="classifier and regressor are both None; give at least"):
        Attacker(None, None)


def test_fewer_people_than_neighbors_are_all_neighbors():
    numbers = np.arange(5.0)
    for model in (NeighborsRegressor(15), NeighborsRegressor(5)):
        np.testing.assert_allclose(model.fit(ROWS[:5], numbers).predict(ROWS), 2.0)


def test_even_odds_do_not_favor_large_groups():
    groups = (np.arange(80) < 8).astype(int)
    alone = KNeighborsClassifier(15).fit(ROWS, groups)
    assert alone.predict(ROWS).sum() == 0
    even = PriorCorrected(KNeighborsClassifier(15)).fit(ROWS, groups)
    assert even.predict(ROWS)[:8].mean() > 0.5
    np.testing.assert_array_equal(even.predict_proba(ROWS), alone.predict_proba(ROWS))


def test_attackers_are_chosen_by_name():
    assert list(resolve_attackers(None)) == list(ATTACKERS)
    assert list(resolve_attackers(["svm", "linear"])) == ["svm", "linear"]
    assert list(resolve_attackers("forest")) == ["forest"]


def test_own_estimators_are_copied_and_seeded():
    tree = DecisionTreeClassifier()
    attacker = resolve_attackers({"tree": tree, "forest": ATTACKERS["forest"]})["tree"]
    made = attacker.make("categorical", 7)
    assert made is not tree
    assert made.random_state == 7
    assert attacker.predicts("categorical")
    assert not attacker.predicts("numeric")
    assert Attacker.from_estimator("line", LinearRegression()).predicts("numeric")
    assert resolve_attackers({"bayes": GaussianNB()})["bayes"].make("categorical", 0).get_params()


@pytest.mark.parametrize(
    ("attackers", "error", "message"),
    [
        (["forrest"], ValueError, "every name in attackers must be one of .*; got 'forrest'; did"),
        ([], ValueError, "attackers is empty; name at least one of linear"),
        ({}, ValueError, "attackers is empty; name at least one"),
        ({"mine": object()}, TypeError, r"estimator of attackers\['mine'\] must be a scikit"),
        (1, TypeError, "attackers must be a list of names, or a dictionary"),
        (np.ma.masked_all((3, 2)), ValueError, "every name in attackers must be one of linear"),
    ],
)
def test_other_attackers_are_refused(attackers, error, message):
    with pytest.raises(error, match=message):
        resolve_attackers(attackers)


def test_a_missing_model_is_an_error():
    with pytest.raises(ValueError, match="no model for numeric features"):
        Attacker.from_estimator("bayes", GaussianNB()).make("numeric", 0)
