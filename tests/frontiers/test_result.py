import pytest
from sklearn.base import clone

from parafair.data.sensitive import SensitiveFeatures
from parafair.frontiers import Frontier, Point
from parafair.frontiers.result import most_leakage
from parafair.penalties import Invariant
from tests.frontiers.conftest import GROUPS, MATRIX, QUICK, small


def test_the_table_has_a_line_for_every_fit(curve):
    table = curve.to_frame()
    assert len(table) == len(curve) == 8
    assert list(table.columns) == [
        "method", "strength", "seed", "residual", "criterion", "null", "leakage", "low", "high",
        "p_value", "below_chance", "rmse", "mae", "rmse_gap", "status", "rounds", "seconds",
        "efficient",
    ]  # fmt: skip
    assert (table.low <= table.leakage).all()
    assert (table.leakage <= table.high).all()
    assert table.set_index(["strength", "seed"]).residual.is_unique


def test_more_strength_costs_fit_and_buys_fairness(curve):
    table = curve.to_frame().groupby("strength").mean(numeric_only=True)
    assert table.residual.is_monotonic_increasing
    assert table.criterion.iloc[-1] < 0.1 * table.criterion.iloc[0]
    assert table.leakage.iloc[-1] < table.leakage.iloc[0] - 0.2


def test_no_point_is_better_than_an_efficient_one(curve):
    assert curve.efficient
    for point in curve.efficient:
        assert not any(
            other.residual <= point.residual and max(other.leakage, 0) < max(point.leakage, 0)
            for other in curve.points
        )


def test_pick_obeys_its_promise(curve):
    for level in (0.1, 0.2, 0.4):
        point = curve.best(leakage=level)
        assert point.leakage <= level
        sound = [p for p in curve.points if p.leakage <= level and not p.audit.below_chance]
        assert point.residual == min(p.residual for p in sound)
    allowed = sorted(p.residual for p in curve.points)[4]
    point = curve.best(residual=allowed)
    assert point.residual <= allowed
    sound = [p for p in curve.points if p.residual <= allowed and not p.audit.below_chance]
    assert point.leakage == min(p.leakage for p in sound)


def test_the_picked_model_is_fitted(curve):
    model = curve.pick(leakage=0.3)
    point = curve.best(leakage=0.3)
    assert model.embedding_.shape == (60, 3)
    assert model.fit_.residual == point.residual
    assert model.method == Invariant(point.member.strength)
    # Its settings are those of the fit, so it can be fitted again.
    again = clone(model).fit(MATRIX, sensitive_features=GROUPS)
    assert again.fit_.residual == pytest.approx(point.residual, rel=1e-3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "either leakage or residual"),
        ({"leakage": 0.1, "residual": 0.1}, "either leakage or residual"),
        ({"leakage": -2.0}, "no point has leakage <= -2.0; the least is"),
        ({"residual": -1.0}, "no point has residual <= -1.0; the least is"),
    ],
)
def test_what_cannot_be_picked_says_why(curve, asked, message):
    with pytest.raises(ValueError, match=message):
        curve.pick(**asked)


def test_methods_are_compared_in_one_object(curve):
    other = small(method="correlation-removal")
    both = curve + other
    assert both.methods == ("invariant", "correlation-removal")
    assert len(both) == len(curve) + 1
    assert len(both.of("invariant")) == len(curve)
    assert both.hypervolume() >= max(curve.hypervolume(), other.hypervolume())
    with pytest.raises(ValueError, match="both frontiers have a method"):
        curve + curve
    with pytest.raises(ValueError, match="method must be one of"):
        both.of("fatr")


def test_frontiers_of_other_data_are_not_mixed(curve):
    from parafair import frontier

    other = frontier(2 * MATRIX, GROUPS, rank=3, method="none", audits=QUICK, limit=False)
    with pytest.raises(ValueError, match="different data cannot be compared"):
        curve + other


class _Audit:
    def __init__(self, leakage, below_chance=False):
        self.leakage, self.below_chance = leakage, below_chance


class _Fit:
    def __init__(self, residual):
        self.residual = residual


def _frontier(*entries):
    points = tuple(Point(None, _Fit(residual), _Audit(*audit)) for residual, *audit in entries)
    return Frontier(points, (), SensitiveFeatures.of(["a", "b"]))


def test_hypervolume_of_known_points():
    assert _frontier((1.0, 0.5)).hypervolume() == 0
    assert _frontier((0.0, 0.0)).hypervolume() == 1
    # Two steps: a quarter and a half of the plane, with a quarter in common.
    found = _frontier((0.5, 0.25), (0.75, -0.1)).hypervolume()
    assert found == pytest.approx(0.5 * 0.5 + 0.25 * 0.5)
    # A point behind another adds nothing.
    assert _frontier((0.5, 0.25), (0.6, 0.3)).hypervolume() == pytest.approx(0.25)


def test_over_matched_points_are_picked_last():
    found = _frontier((0.2, 0.3), (0.5, -0.2, True), (0.6, 0.01))
    assert found.best(leakage=0.1).residual == 0.6
    assert found.best(residual=0.55).residual == 0.2
    assert _frontier((0.5, -0.2, True)).best(leakage=0.1).residual == 0.5
    # Below zero is not better than zero.
    assert [p.residual for p in _frontier((0.5, -0.1), (0.6, -0.3)).efficient] == [0.5]


def test_certainty_depends_on_the_number_of_groups():
    assert most_leakage(SensitiveFeatures.of(["a", "b"])) == 0.5
    assert most_leakage(SensitiveFeatures.of(["a", "b", "c", "d"] * 2)) == 0.75
    assert most_leakage(SensitiveFeatures.of([0.5, 1.5, 2.5], kinds="numeric")) == 1.0
