from pathlib import Path

import numpy as np
import pytest

from parafair import audit
from parafair.audits import Verdict
from tests.campaign.blinding import (
    CHANGES,
    FIRST,
    HIDING,
    KINDS,
    LEAST,
    QUICK,
    attack,
    attempt,
    passes,
    share_left,
)


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


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", some_slow(KINDS, 1))
def test_no_distortion_hides_the_dependence_from_the_criterion(kind, change):
    if change in HIDING.get(kind, ()):
        pytest.skip("other columns hide a spread")
    for seed in range(3):
        assert share_left(kind, change, seed) >= LEAST[change]


def test_the_page_states_the_shares_that_are_checked():
    page = (Path(__file__).parents[1] / "docs" / "measures.md").read_text(encoding="utf-8")
    table = page.split("| share left, at least |\n|---|---|\n")[1].split("\n\n")[0]
    cells = [row.split(" | ")[1].removesuffix(" |") for row in table.splitlines()]
    terms = [cell.split("\N{MINUS SIGN}") for cell in cells]
    stated = [float(first) - sum(map(float, others)) for first, *others in terms]
    assert sorted(stated) == pytest.approx(sorted(LEAST.values()), rel=1e-12)
