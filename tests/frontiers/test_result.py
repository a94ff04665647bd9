from dataclasses import replace

import pytest
from sklearn.base import clone

from parafair import Audit, FairCP, Measure, SensitiveFeatures, frontier
from parafair.audits import Verdict
from parafair.audits.result import ACCURACY
from parafair.frontiers import Frontier, Point
from parafair.frontiers.point import Member
from parafair.frontiers.result import most_leakage
from tests.frontiers.conftest import CAREFUL, GROUPS, MATRIX, QUICK, small


def test_the_table_has_a_line_for_every_fit(curve):
    table = curve.to_frame()
    assert len(table) == len(curve) == 8
    assert list(table.columns) == [
        "method", "strength", "noise", "seed", "residual", "criterion", "null", "leakage", "low",
        "high", "p_value", "below_chance", "certified_release", "certified_matrix", "exposure_b",
        "exposure_b_95", "exposure_a", "exposure_a_95", "vote", "vote_by_chance", "rmse",
        "mae", "rmse_gap", "ks", "status", "n_iter", "seconds", "efficient",
    ]  # fmt: skip
    assert (table.low <= table.leakage).all()
    assert (table.leakage <= table.high).all()
    assert table.set_index(["strength", "seed"]).residual.is_unique


def test_more_strength_costs_fit_and_buys_fairness(curve):
    table = curve.to_frame().groupby("strength").mean(numeric_only=True)
    assert table.residual.is_monotonic_increasing
    assert table.criterion.iloc[-1] < 0.1 * table.criterion.iloc[0]
    assert table.leakage.iloc[-1] < 0.25 * table.leakage.iloc[0]
    every = curve.to_frame()
    assert (every.low[every.strength == 300.0] <= 0).all()  # at chance, as far as 60 people tell


def test_no_point_is_better_than_an_efficient_one(curve):
    assert curve.efficient
    for point in curve.efficient:
        assert not any(
            other.residual <= point.residual and max(other.leakage, 0) < max(point.leakage, 0)
            for other in curve.points
        )


def test_pick_obeys_its_promise(curve):
    for level in (0.1, 0.2, 0.4):
        passing = [p for p in curve.points if p.verdict(level) is Verdict.PASSES]
        if passing:
            assert curve.best(max_leakage=level).residual == min(p.residual for p in passing)
        else:
            assert curve.best(max_leakage=level).verdict(level) is Verdict.BELOW_CHANCE
    allowed = sorted(p.residual for p in curve.points)[4]
    point = curve.best(max_residual=allowed)
    assert point.residual <= allowed
    sound = [p for p in curve.points if p.residual <= allowed and not p.audit.below_chance]
    assert point.leakage == min(p.leakage for p in sound)


def test_the_picked_model_is_fitted(curve):
    model = curve.pick(max_leakage=0.4)
    point = curve.best(max_leakage=0.4)
    assert model.embedding_.shape == (60, 3)
    assert model.fit_.residual == point.residual
    assert (model.method, model.strength) == ("invariant", point.member.strength)
    assert model.record_.params == model.get_params()
    # Its settings are those of the fit, so it can be fitted again.
    again = clone(model).fit(MATRIX, sensitive_features=GROUPS)
    assert again.fit_.residual == pytest.approx(point.residual, rel=1e-3)


def test_points_of_others_are_refused(curve):
    with pytest.raises(TypeError, match="point must be a Point, got 1; pass one of points"):
        curve.model(1)
    other = replace(curve.points[0], member=replace(curve.points[0].member, method="other"))
    with pytest.raises(ValueError, match="other.* is not one of this frontier; pass one of points"):
        curve.model(other)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "pass either max_leakage or max_residual"),
        ({"max_leakage": 0.1, "max_residual": 0.1}, "pass either max_leakage or max_residual"),
        ({"max_leakage": -2.0}, "max_leakage must be a number from 0 to 1, got -2.0"),
        ({"max_residual": 1e-9}, "no point has residual <= 1e-09; the smallest is"),
        ({"max_residual": -1.0}, "max_residual must be a finite number of at least 0, got -1.0"),
    ],
)
def test_what_cannot_be_picked_says_why(curve, asked, message):
    with pytest.raises(ValueError, match=message):
        curve.pick(**asked)


def test_methods_are_compared_in_one_object(curve):
    other = small(model={"method": "correlation-removal"}, audits=CAREFUL)
    both = curve + other
    assert both.methods == ("invariant", "correlation-removal")
    assert len(both) == len(curve) + 1
    assert len(both.of("invariant")) == len(curve)
    assert both.hypervolume() >= max(curve.hypervolume(), other.hypervolume())
    with pytest.raises(ValueError, match="both frontiers have a method 'invariant'; set name="):
        curve + curve
    with pytest.raises(
        ValueError, match="method must be one of invariant, correlation-removal; got 'fatr'"
    ):
        both.of("fatr")


def test_frontiers_of_other_data_are_not_mixed(curve):
    other = frontier(
        FairCP(3, method="none"), 2 * MATRIX, sensitive_features=GROUPS, audits=QUICK, limit=False
    )
    with pytest.raises(ValueError, match="different data cannot be compared"):
        curve + other


class _Fit:
    def __init__(self, residual):
        self.residual = residual


def made_audit(leakage, low=0.4, high=0.9):
    """An audit with this leakage and one attacker, whose interval is from `low` to `high`."""
    attacker = Measure(
        "group", "attackers", ACCURACY, 0.5, "linear", "standardized", low, high, 0.5
    )
    return Audit((attacker, Measure("group", "leakage", "leakage", leakage)), 60, 60)


def _frontier(*entries):
    points = tuple(
        Point(Member("made", float(k), 0), _Fit(residual), made_audit(*audit))
        for k, (residual, *audit) in enumerate(entries)
    )
    return Frontier(points, (), SensitiveFeatures.of(["a", "b"]))


def test_hypervolume_of_known_points():
    assert _frontier((1.0, 0.5)).hypervolume() == 0
    assert _frontier((0.0, 0.0)).hypervolume() == 1
    # Two steps: a quarter and a half of the plane, with a quarter in common.
    found = _frontier((0.5, 0.25), (0.75, -0.1)).hypervolume()
    assert found == pytest.approx(0.5 * 0.5 + 0.25 * 0.5)
    # A point behind another adds nothing.
    assert _frontier((0.5, 0.25), (0.6, 0.3)).hypervolume() == pytest.approx(0.25)


def test_over_matched_points_are_not_picked():
    found = _frontier((0.2, 0.3), (0.5, 0.2, 0.1, 0.4), (0.6, 0.01))
    assert found.best(max_leakage=0.1).residual == 0.6
    assert _frontier((0.5, 0.05, 0.1, 0.4)).best_or_none(max_leakage=0.1) is None
    with pytest.raises(ValueError, match="max_leakage must be a number from 0 to 1, got None"):
        _frontier((0.5, 0.05, 0.1, 0.4)).best_or_none(max_leakage=None)
    # Below zero is not better than zero.
    assert [p.residual for p in _frontier((0.5, -0.1), (0.6, -0.3)).efficient] == [0.5]


def test_certainty_depends_on_the_number_of_groups():
    assert most_leakage(SensitiveFeatures.of(["a", "b"])) == 0.5
    assert most_leakage(SensitiveFeatures.of(["a", "b", "c", "d"] * 2)) == 0.75
    assert most_leakage(SensitiveFeatures.of([0.5, 1.5, 2.5], kinds="numeric")) == 1.0


@pytest.mark.parametrize("worst", [(1.0,), 1.0, ("a", 1.0), (0.0, 1.0), (float("nan"), 1.0)])
def test_a_corner_that_is_none_is_refused(curve, worst):
    with pytest.raises((TypeError, ValueError), match=r"worst must be (two|a list|a finite)"):
        curve.hypervolume(worst)
