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


def made_audit(leakage, low, high):
    """An audit with this leakage and one attacker, whose interval is from `low` to `high`."""
    about = {"model": "linear", "input": "standardized", "chance": 0.5}
    attacker = Measure(
        "group", "attackers", ACCURACY, (low + high) / 2, low=low, high=high, **about
    )
    rows = [attacker, Measure("group", "leakage", "leakage", leakage)]
    for name in ("criterion", "independence p-value"):
        rows.append(Measure("group", "dependence", name, 0.5, chance=0.5))
    return Audit(tuple(rows), 40, 40)


CASES = {
    "passes": (made_audit(0.04, 0.45, 0.6), Verdict.PASSES),
    "at the level": (made_audit(0.05, 0.45, 0.6), Verdict.PASSES),
    "one attacker is significantly above chance": (made_audit(0.04, 0.51, 0.6), Verdict.LEAKS),
    "too much leakage": (made_audit(0.06, 0.45, 0.7), Verdict.LEAKS),
    "significantly below chance": (made_audit(-0.1, 0.3, 0.45), Verdict.LEAKS),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request, monkeypatch):
    """Every audit of the library finds the same; returns it and the expected verdict."""
    result, verdict = request.param
    for place in ("model.strength", "model.tuning", "frontiers.run"):
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
    if case[1] is Verdict.LEAKS:
        with pytest.raises(ValueError, match=f"no point passes at max_leakage={LEVEL}"):
            found.pick(max_leakage=LEVEL)
    else:
        assert found.best(max_leakage=LEVEL) is point
    assert found.best_or_none(LEVEL) is (None if case[1] is Verdict.LEAKS else point)
    (shown,) = content(found, title="", max_leakage=LEVEL)["points"]
    assert shown["verdict"] == case[1].value
    assert shown["picked"] == (case[1] is not Verdict.LEAKS)
