from dataclasses import replace

import pytest

from parafair.guarantees.statements import Statement, rounded_up

STATEMENT = Statement("release", "sex", "balanced accuracy", 0.5, 0.01, 0.02, 0.95, 2, 100)


def test_bounds_are_never_rounded_down():
    assert rounded_up(0.12341) == 0.1235
    assert rounded_up(0.1234) == 0.1234
    assert rounded_up(1.2) == 1
    assert "above 0.5201 for sex" in replace(STATEMENT, upper=0.02001).sentence


def test_each_kind_has_a_sentence():
    for kind in ("release", "matrix", "population"):
        found = replace(STATEMENT, kind=kind)
        assert "{" not in str(found)
        assert Statement.from_dict(found.to_dict()) == found
    assert "held-out people" in replace(STATEMENT, kind="population").sentence
    numbers = replace(STATEMENT, measure="share of variance", chance=0.0, groups=1)
    assert "explains more than 2.00 % of the variance of sex" in numbers.sentence


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="kind must be one of release, matrix, population"):
        Statement.from_dict({**STATEMENT.to_dict(), "kind": "other"})
