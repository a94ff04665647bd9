from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, audit
from parafair.frontiers import frontier, load
from parafair.frontiers import run as run_module
from parafair.frontiers.exchange import exchange, with_noise_of
from parafair.frontiers.plan import make_plan
from parafair.frontiers.point import Member, Point
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


@pytest.fixture(scope="module")
def planned():
    """A plan, and its points without penalty, with little and with much of it."""
    tensor, groups, rank = draw(mean_shift, 0, 60)
    plan = make_plan(FairCP(rank, tol=1e-3, n_init=1), tensor, sensitive_features=groups)
    members = [plan.member(strength, 0) for strength in (0.0, 1.0, 100.0)]
    fits = plan.fit(members, lambda position, fit: None)
    return plan, [Point(m, fit) for m, fit in zip(members, fits, strict=True)]


def test_a_poor_fit_is_replaced_by_that_of_another_strength(planned):
    plan, (_, weak, strong) = planned
    member = plan.member(1.5, 0)
    poor = Point(member, with_noise_of(plan, strong, member))
    found = exchange(plan, [weak, poor, strong])
    assert found[0] is weak
    assert found[2] is strong
    assert found[1].fit.before_noise.residual == pytest.approx(weak.fit.before_noise.residual)
    assert found[1].member.strength == 1.5
    # The noise is that of the member, and the objective that of the member's strength.
    np.testing.assert_allclose(found[1].fit.noiseless, weak.fit.noiseless, rtol=1e-6, atol=1e-9)
    apart = found[1].fit.cp.factors[0] - weak.fit.cp.factors[0]
    assert float(apart.std()) > 0.05 * float(weak.fit.noiseless.std())
    ratio = found[1].fit.before_noise.penalty / weak.fit.before_noise.penalty
    assert ratio == pytest.approx(1.5)


def as_loaded(point):
    """The point as it is read from a folder, without rows before noise."""
    return Point(point.member, replace(point.fit, noiseless=None, plain=None))


def test_noise_is_subtracted_with_the_data(planned):
    plan, points = planned
    for point in points[:2]:
        stored = as_loaded(point).fit
        problem = plan.problem_of([point.member])
        exact = plan.noise_of(point.member).subtract(problem, stored)
        expected = point.fit.cp.factors[0] if point.fit.noiseless is None else point.fit.noiseless
        torch.testing.assert_close(exact.cp.factors[0], expected, rtol=1e-12, atol=1e-12)
        assert exact.residual == point.fit.before_noise.residual
        again = plan.noise_of(point.member).release(problem, exact)
        torch.testing.assert_close(again.cp.factors[0], stored.cp.factors[0])
        torch.testing.assert_close(again.shifts, stored.shifts)
        assert again.noise.keys() == stored.noise.keys()
    assert not points[0].fit.noise
    assert points[1].fit.noise
    # Another seed, or other data, has other noise.
    other = plan.noise_of(plan.member(1.0, 1)).subtract(problem, stored)
    assert not torch.allclose(other.cp.factors[0], expected, atol=1e-3)


def test_fits_that_were_read_are_exchanged_alike(planned):
    plan, (none, weak, strong) = planned
    member = plan.member(1.5, 0)
    points = [none, weak, Point(member, with_noise_of(plan, strong, member)), strong]
    found, again = (exchange(plan, each) for each in (points, list(map(as_loaded, points))))
    assert [after is before for before, after in zip(points, found, strict=True)] == [
        True,
        True,
        False,
        True,
    ]
    for one, two in zip(found, again, strict=True):
        assert all(map(torch.equal, one.fit.cp.factors, two.fit.cp.factors))
        assert torch.equal(one.fit.shifts, two.fit.shifts)
        assert one.residual == two.residual
    # An exchanged fit is not exchanged again.
    assert exchange(plan, found) == found


def test_people_without_entries_have_no_noise_to_subtract():
    tensor, groups, rank = draw(mean_shift, 0, 60)
    tensor[[4, 9]] = np.nan
    model = FairCP(rank, tol=1e-2, n_init=1, ridge=1.0)
    plan = make_plan(model, tensor, sensitive_features=groups)
    member = plan.member(1.0, 0)
    (fit,) = plan.fit([member], lambda position, fit: None)
    exact = plan.noise_of(member).subtract(plan.problem_of([member]), fit)
    torch.testing.assert_close(exact.cp.factors[0], fit.noiseless, rtol=1e-12, atol=1e-12)


def test_a_fit_with_another_noise_is_replaced_with_its_own_noise(planned):
    plan, (_, weak, strong) = planned
    noisy = Point(plan.member(1.5, 0, 0.5), with_noise_of(plan, strong, plan.member(1.5, 0, 0.5)))
    found = exchange(plan, [weak, noisy, strong])[1]
    assert found.member == noisy.member
    np.testing.assert_allclose(found.fit.noiseless, weak.fit.noiseless)
    expected = with_noise_of(plan, weak, noisy.member)
    np.testing.assert_allclose(found.fit.cp.factors[0], expected.cp.factors[0])
    assert found.fit.noise_cost > weak.fit.noise_cost


def test_other_seeds_are_left_alone(planned):
    plan, (_, weak, strong) = planned
    other = Point(plan.member(1.5, 1), strong.fit)
    assert exchange(plan, [weak, other])[1] is other


def test_the_methods_of_the_paper_are_left_alone():
    tensor, groups, rank = draw(mean_shift, 0, 40)
    model = FairCP(rank, method="khsic", tol=1e-2)
    plan = make_plan(model, tensor, sensitive_features=groups)
    members = [Member("khsic", strength, 0) for strength in (1.0, 1e6)]
    fits = plan.fit(members, lambda position, fit: None)
    swapped = [Point(m, fit) for m, fit in zip(members, reversed(fits), strict=True)]
    assert exchange(plan, swapped) == swapped


@pytest.mark.slow
def test_a_folder_has_the_exchanged_fits(tmp_path, monkeypatch):
    fit = run_module._fit_batch

    def poor(plan, members, folder, done=None):
        fits = list(fit(plan, members, None, done))
        # the fit of a much larger strength
        fits[1] = with_noise_of(plan, Point(members[2], fits[2]), members[1])
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
    rows = stored.points[1].fit.cp.factors[0]
    again = audit(rows, sensitive_features=GROUPS, **QUICK)
    assert stored.points[1].audit.leakage == again.leakage
    assert before_noise(curve(mean_shift, **settings)) == before_noise(found)


def test_a_finished_search_for_strengths_is_not_repeated(tmp_path):
    settings = {"strengths": 4, "out": tmp_path / "curve", "tol": 1e-2}
    first = curve(equal_moments, **settings)
    again = curve(equal_moments, **settings)
    assert [p.member for p in again.points] == [p.member for p in first.points]
    assert before_noise(again) == before_noise(first)
    assert len(load(tmp_path / "curve")) == len(first)
