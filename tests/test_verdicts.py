"""One rule decides what passes: everything that judges an embedding says the same of it."""

import warnings

import numpy as np
import pytest

from parafair import Audit, ConvergenceWarning, FairCP, Measure, frontier, tune
from parafair.audits import Verdict
from parafair.audits.result import ACCURACY
from parafair.report import content

RANDOM = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b"], 20)
MATRIX = RANDOM.standard_normal((40, 3)) @ RANDOM.standard_normal((3, 6))
LEVEL = 0.05


def made_audit(leakage, low, high, *, most=0.3, people=40):
    """An audit with this leakage and one attacker, whose interval is from `low` to `high`.

    Args:
        leakage: The leakage.
        low: Lower end of the interval of the attacker.
        high: Upper end.
        most: Upper end of the interval of leakage.
        people: Number of people.
    """
    about = {"model": "linear", "input": "standardized", "chance": 0.5}
    attacker = Measure(
        "group", "attackers", ACCURACY, (low + high) / 2, low=low, high=high, **about
    )
    rows = [attacker, Measure("group", "leakage", "leakage", leakage, low=-0.3, high=most)]
    for name in ("criterion", "independence p-value"):
        rows.append(Measure("group", "dependence", name, 0.5, chance=0.5))
    return Audit(tuple(rows), people, people)


CASES = {
    "passes": (made_audit(0.04, 0.45, 0.6), Verdict.PASSES),
    "at the level": (made_audit(0.05, 0.45, 0.6), Verdict.PASSES),
    "one attacker is significantly above chance": (made_audit(0.04, 0.51, 0.6), Verdict.LEAKS),
    "too much leakage": (made_audit(0.06, 0.45, 0.7), Verdict.LEAKS),
    "significantly below chance": (made_audit(-0.1, 0.3, 0.45), Verdict.LEAKS),
    "leakage may be complete": (made_audit(0.0, 0.1, 0.9, most=0.5), Verdict.INCONCLUSIVE),
    "attackers may be always right": (made_audit(0.0, 0.0, 1.0, most=0.0), Verdict.INCONCLUSIVE),
    "few people who leak": (made_audit(0.2, 0.1, 1.0, most=0.5), Verdict.LEAKS),
    "enough people": (made_audit(0.0, 0.0, 1.0, most=0.5, people=100), Verdict.PASSES),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request, monkeypatch):
    """Every audit of the library finds the same; returns it and the expected verdict."""
    result, verdict = request.param
    for place in ("model.tuning", "frontiers.run", "audits"):  # the last after those that import it
        monkeypatch.setattr(f"parafair.{place}.audit", lambda *_, **__: result)
    return result, verdict


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def test_the_audit(case):
    result, verdict = case
    assert result.verdict(LEVEL) is verdict


def test_strength_auto(case, quiet, monkeypatch):
    monkeypatch.setattr("parafair.model.strength.FIRST_STRENGTH", 30.0)
    monkeypatch.setattr("parafair.model.strength.LAST_STRENGTH", 30.0)
    model = FairCP(2, strength="auto", max_leakage=LEVEL, tol=1e-2, n_init=1)
    model.fit(MATRIX, sensitive_features=GROUPS)
    trial = model.selection_.trials[-1]
    assert trial.leakage is not None, "not audited"
    assert trial.verdict == case[1].value
    assert model.selection_.passed == (case[1] is Verdict.PASSES)


def test_tune(case, quiet):
    tuning = tune(
        FairCP(max_iter=3, n_init=1),
        MATRIX,
        grid={"rank": [1]},
        sensitive_features=GROUPS,
        max_leakage=LEVEL,
    )
    assert (tuning.best.verdict, tuning.verdict) == (case[1], case[1])


def test_frontier_and_report(case):
    found = frontier(
        FairCP(1, max_iter=3, n_init=1),
        MATRIX,
        sensitive_features=GROUPS,
        strengths=[1.0],
        limit=False,
    )
    (point,) = found.points
    assert point.verdict(LEVEL) is case[1]
    passes = case[1] is Verdict.PASSES
    if not passes:
        with pytest.raises(ValueError, match=f"no point passes at max_leakage={LEVEL}"):
            found.pick(max_leakage=LEVEL)
    else:
        assert found.best(max_leakage=LEVEL) is point
    assert found.best_or_none(LEVEL) is (point if passes else None)
    (shown,) = content(found, title="", max_leakage=LEVEL)["points"]
    assert shown["verdict"] == case[1].value
    assert shown["picked"] == passes


def test_a_level_that_allows_everything_is_met_by_few_people():
    result = made_audit(0.0, 0.0, 1.0, most=0.5)
    assert result.verdict(0.49) is Verdict.INCONCLUSIVE
    assert result.verdict(0.5) is Verdict.PASSES
    assert repr(result).startswith("Audit(inconclusive: ")
    assert "an audit that finds no leak is inconclusive" in " ".join(result.notes)
    assert "inconclusive" not in " ".join(made_audit(0.0, 0.4, 0.6).notes)


def test_the_report_says_that_few_people_decide_nothing(case):
    found = frontier(
        FairCP(1, max_iter=3, n_init=1), MATRIX, sensitive_features=GROUPS, strengths=[1.0],
        limit=False,
    )  # fmt: skip
    text = content(found, title="", max_leakage=LEVEL)["summary"]["Evidence"]
    assert ("1 of 1 are inconclusive" in text) == (case[1] is Verdict.INCONCLUSIVE)
