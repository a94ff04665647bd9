from functools import cache

import numpy as np
import pytest

from parafair import audit
from parafair.audits import Verdict
from parafair.audits.dependence import dependence_rows
from parafair.audits.trials import Plan
from parafair.data.sensitive import SensitiveFeatures
from tests.campaign.blinding import CHANGES, FIRST, KINDS, QUICK, attack, attempt, passes

# The least share of the criterion, above its level under independence, that a change may leave.
# docs/measures.md states them.
LEAST = {
    "shift": 1 - 1e-4,
    "scale": 1 - 1e-9,
    "duplicate": 0.5,
    "mix": 0.3,
    "bend": 0.15,
    "replace_rows": 0.1,
    "add_noise": 0.08,
}


def some_slow(values, fast):
    """All values; those after the first few run with the slow tests."""
    return [
        value if place < fast else pytest.param(value, marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize("number", some_slow(range(24), 6))
def test_no_distortion_blinds_the_audit(number):
    found = attempt(np.random.default_rng([2026, number]))
    assert not passes(found), f"{found.kind} after {found.steps}"


# Seeds and numbers of embeddings that once blinded an audit, and the attacker who reads them now.
FOUND = [(9101, 4532, "linear")]


@pytest.mark.parametrize(("seed", "number", "attacker"), FOUND)
def test_what_blinded_an_audit_once_does_not_any_more(seed, number, attacker):
    found = attempt(np.random.default_rng([seed, number]))
    result = attack(found, {**QUICK, "attackers": [attacker]})
    assert result.verdict() is Verdict.LEAKS, f"{found.kind} after {found.steps}"


@pytest.mark.parametrize("settings", [FIRST, QUICK], ids=["first", "quick"])
def test_a_stage_has_the_verdict_of_the_public_audit(settings):
    found = attempt(np.random.default_rng([2026, 0]))
    public = audit(found.rows, sensitive_features=found.features, **settings)
    stage = attack(found, settings)
    deciding = ("leakage", "attackers")
    assert stage.rows == tuple(row for row in public.rows if row.section in deciding)
    assert stage.verdict() is public.verdict()
    assert {row.section for row in public.rows} == {*deciding, "dependence", "paper"}


def excess(rows, features):
    """The criterion of the audit above its level under independence."""
    column = SensitiveFeatures.of(features).columns[0]
    plan = Plan(folds=2, repeats=1, n_jobs=None, precision=2.0**-52, seed=0)
    criterion, _ = dependence_rows(rows, column, permutations=40, plan=plan)
    return criterion.value - criterion.chance


@cache
def excess_before(kind, seed):
    return excess(*KINDS[kind](120, 1 + 2 * seed, np.random.default_rng(seed)))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", some_slow(KINDS, 1))
def test_no_distortion_hides_the_dependence_from_the_criterion(kind, change):
    if kind == "nested" and change in ("mix", "add_noise"):
        pytest.skip("other columns hide a spread")
    for seed in range(3):
        random = np.random.default_rng(seed)
        rows, features = KINDS[kind](120, 1 + 2 * seed, random)
        left = excess(CHANGES[change](rows, random), features) / excess_before(kind, seed)
        assert left >= LEAST[change]
