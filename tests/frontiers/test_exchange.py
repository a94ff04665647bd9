import numpy as np
import pytest

from parafair import FairCP, audit
from parafair.frontiers import frontier, load
from parafair.frontiers import run as run_module
from parafair.frontiers.exchange import exchange
from parafair.frontiers.plan import make_plan
from parafair.frontiers.result import Member, Point
from tests.reference.kinds import KINDS, draw, equal_moments, mean_shift, zero_inflated

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)


GROUPS = draw(mean_shift, 0, 60)[1]
QUICK = {"attackers": ["linear"], "folds": 2, "permutations": 1}


def curve(kind, seed=0, tol=1e-3, **settings):
    tensor, groups, rank = draw(kind, seed, 60)
    model = FairCP(rank, tol=tol, n_init=1)
    options = {"strengths": STRENGTHS, "audits": None, "limit": False} | settings
    return frontier(model, tensor, sensitive_features=groups, **options)


def before_noise(found):
    return [point.fit.before_noise.residual for point in found.points]


@pytest.mark.parametrize("kind", [mean_shift, zero_inflated], ids=lambda kind: kind.__name__)
def test_the_residual_is_monotone_in_the_strength(kind):
    residuals = before_noise(curve(kind))
    assert np.all(np.diff(residuals) >= -1e-9)
    assert residuals[-1] > residuals[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_residual_is_monotone_for_other_seeds_and_more_strengths(kind, seed):
    residuals = before_noise(curve(kind, seed, tol=1e-4, strengths=9, seeds=[seed]))
    assert np.all(np.diff(residuals) >= -1e-9)


def plan_and_points(strengths=(1.0, 100.0)):
    tensor, groups, rank = draw(mean_shift, 0, 60)
    plan = make_plan(FairCP(rank, tol=1e-3, n_init=1), tensor, sensitive_features=groups)
    members = [Member("invariant", strength, 0) for strength in strengths]
    fits = plan.fit(members, lambda position, fit: None)
    return plan, [Point(m, fit) for m, fit in zip(members, fits, strict=True)]


def test_a_poor_fit_is_replaced_by_that_of_another_strength():
    plan, (weak, strong) = plan_and_points()
    poor = Point(Member("invariant", 1.5, 0), strong.fit)
    found = exchange(plan, [weak, poor, strong])
    assert found[0] is weak
    assert found[2] is strong
    assert found[1].fit.before_noise.residual == pytest.approx(weak.fit.before_noise.residual)
    assert found[1].member.strength == 1.5
    # The noise is that of the seed, and the objective is that of the member's strength.
    np.testing.assert_allclose(found[1].fit.cp.factors[0], weak.fit.cp.factors[0])
    ratio = found[1].fit.before_noise.penalty / weak.fit.before_noise.penalty
    assert ratio == pytest.approx(1.5)


def test_other_seeds_are_left_alone():
    plan, (weak, strong) = plan_and_points()
    other = Point(Member("invariant", 1.5, 1), strong.fit)
    assert exchange(plan, [weak, other])[1] is other


def test_the_methods_of_the_paper_are_left_alone():
    tensor, groups, rank = draw(mean_shift, 0, 40)
    model = FairCP(rank, method="khsic", tol=1e-2)
    plan = make_plan(model, tensor, sensitive_features=groups)
    members = [Member("khsic", strength, 0) for strength in (1.0, 1e6)]
    fits = plan.fit(members, lambda position, fit: None)
    swapped = [Point(m, fit) for m, fit in zip(members, reversed(fits), strict=True)]
    assert exchange(plan, swapped) == swapped


def test_a_folder_has_the_exchanged_fits(tmp_path, monkeypatch):
    fit = run_module._fit_batch

    def poor(plan, members, folder, done=None):
        fits = list(fit(plan, members, None, done))
        fits[1] = fits[2]  # the fit of a much larger strength
        for member, one in zip(members, fits, strict=True):
            folder.write(member, one)
            folder.write_audit(member, audit(one.cp.factors[0], sensitive_features=GROUPS, **QUICK))
        return tuple(fits)

    monkeypatch.setattr(run_module, "_fit_batch", poor)
    settings = {"strengths": (1.0, 1.1, 300.0), "out": tmp_path / "curve", "audits": QUICK}
    found = curve(mean_shift, **settings)
    weak, exchanged, strong = found.points
    residual = weak.fit.before_noise.residual
    assert exchanged.fit.before_noise.residual == pytest.approx(residual)
    assert exchanged.fit.before_noise.residual < strong.fit.before_noise.residual
    stored = load(tmp_path / "curve")
    assert before_noise(stored) == before_noise(found)
    # The audit is that of the fit it now has.
    assert stored.points[1].audit.leakage == weak.audit.leakage
    assert before_noise(curve(mean_shift, **settings)) == before_noise(found)


def test_a_finished_search_for_strengths_is_not_repeated(tmp_path):
    settings = {"strengths": 4, "out": tmp_path / "curve", "tol": 1e-2}
    first = curve(equal_moments, **settings)
    again = curve(equal_moments, **settings)
    assert [p.member for p in again.points] == [p.member for p in first.points]
    assert before_noise(again) == before_noise(first)
    assert len(load(tmp_path / "curve")) == len(first)
