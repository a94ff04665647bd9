import pytest

from parafair import Certificate, Measure, SensitiveFeatures
from parafair.audits import Audit
from parafair.audits.result import ACCURACY
from parafair.frontiers import Frontier, Point
from parafair.frontiers.point import Member
from parafair.guarantees.statements import Statement


class _Fit:
    def __init__(self, residual):
        self.residual = residual


def made(residual, leakage, release=None, matrix=None, *, off_chance=False):
    """A point with this measured leakage and these certified ones."""
    low, high = (0.1, 0.4) if off_chance else (0.4, 0.9)
    attacker = Measure(
        "group", "attackers", ACCURACY, 0.5, "linear", "standardized", low, high, 0.5
    )
    audit = Audit((attacker, Measure("group", "leakage", "leakage", leakage)), 60, 60)
    certificate = None
    if release is not None:
        bounds = {"release": release, "matrix": release if matrix is None else matrix}
        statements = tuple(
            Statement(kind, "group", "balanced accuracy", 0.5, bound, bound, 0.95, 2, 60)
            for kind, bound in bounds.items()
        )
        certificate = Certificate(statements, (), 0.95, 1, 200, 60)
    member = Member("made", residual, 0, 0.1)
    return Point(member, _Fit(residual), audit, None, certificate)


def curve(*points):
    return Frontier(points, (), SensitiveFeatures.of(["a", "b"]))


FOUND = curve(
    made(0.3, 0.30, 0.50),
    made(0.4, 0.02, 0.40),
    made(0.5, 0.01, 0.09, 0.2),
    made(0.6, 0.01, 0.04, 0.04),
    made(0.7, 0.20, 0.00, off_chance=True),  # as after a transport repair
)


@pytest.mark.parametrize(
    ("wanted", "residual"),
    [
        ({"max_leakage": 0.05}, 0.4),
        ({"max_leakage": 0.05, "guarantee": None}, 0.4),
        ({"max_leakage": 0.05, "guarantee": "release"}, 0.6),
        ({"max_leakage": 0.05, "guarantee": "release", "max_certified": 0.1}, 0.5),
        ({"max_leakage": 0.05, "guarantee": "matrix", "max_certified": 0.1}, 0.6),
        ({"max_leakage": 0.05, "guarantee": "release", "max_certified": 0.5}, 0.4),
    ],
)
def test_the_picked_fit_passes_and_is_certified(wanted, residual):
    assert FOUND.best(**wanted).residual == residual
    assert FOUND.best_or_none(**wanted).residual == residual


def test_a_bound_alone_is_not_enough():
    """After a transport repair the bound is 0, but attackers turn their answers around."""
    repaired = curve(made(0.6, 0.2, 0.0, off_chance=True), made(0.7, 0.01, 0.3))
    wanted = {"max_leakage": 0.05, "guarantee": "release"}
    assert repaired.best_or_none(**wanted) is None
    with pytest.raises(
        ValueError, match="at most 0.05; the nearest is 0.3000 of made-0.7"
    ) as error:
        repaired.best(**wanted)
    assert "the least of all, 0.0000 of made-0.6-noise0.1-seed0" in str(error.value)
    assert "has a measured leakage of 0.200 and does not pass" in str(error.value)
    for help_ in ("more noise", "method='transport'", "more people", "raise max_certified"):
        assert help_ in str(error.value)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [made(0.5, 0.01, 0.2)],
            r"no point that passes at max_leakage=0.05 has a certified leakage \(release\) of at "
            r"most 0.05; the nearest is 0.2000 of made-0.5-noise0.1-seed0 \(residual 0.5000\). To",
        ),
        ([made(0.5, 0.01)], "no point has a certificate, .* with noise, .*certificates={}"),
        (
            [made(0.5, 0.3, 0.01)],
            "no point passes at max_leakage=0.05; the smallest leakage is 0.3",
        ),
        ([made(0.5, 0.01), made(0.6, 0.3, 0.2)], "at most 0.05; the least of all, 0.2000 of"),
    ],
)
def test_what_cannot_be_guaranteed_says_how_near_it_is(points, message):
    with pytest.raises(ValueError, match=message):
        curve(*points).pick(max_leakage=0.05, guarantee="release")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"max_leakage": 0.1, "guarantee": "population"},
            "guarantee must be one of release, matrix; got 'population'",
        ),
        ({"max_leakage": 0.1, "guarantee": 1}, "guarantee must be one of release, matrix; got 1"),
        ({"max_residual": 0.5, "guarantee": "release"}, "guarantee='release' needs max_leakage"),
        ({"max_leakage": 0.1, "max_certified": 0.1}, "max_certified=0.1 is for a guarantee"),
        (
            {"max_leakage": 0.1, "guarantee": "release", "max_certified": 2.0},
            "max_certified must be a finite number of at least 0 and of at most 1, got 2.0",
        ),
    ],
)
def test_wrong_arguments_are_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        FOUND.pick(**wanted)
