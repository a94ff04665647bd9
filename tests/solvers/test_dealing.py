from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.errors import Interrupted
from parafair.model.preparation import Settings
from parafair.penalties import Invariant
from parafair.solvers import Status, Stop
from parafair.solvers.dealing import solve_dealt
from parafair.solvers.precision import solve_twice
from parafair.solvers.problem import Problem

SMALL = Invariant(100.0, chunk_size=50)


@pytest.fixture(scope="module")
def task():
    random = np.random.default_rng(0)
    groups = np.array(["a", "b"])[random.integers(0, 2, 400)]
    matrix = random.standard_normal((400, 6)) @ random.standard_normal((6, 12))
    matrix += (groups == "a")[:, None] * random.standard_normal(12)
    matrix += (groups == "b")[:, None] * random.standard_normal((400, 1))
    model = FairCP(rank=3, method=SMALL)
    return Settings.of(model).bind(TensorData(torch.as_tensor(matrix)), groups)


@pytest.fixture(scope="module")
def starts(task):
    return tuple(factor[None] for factor in task.fit_plain().cp.factors)


def test_only_several_chunks_are_dealt(task):
    assert task.problem.in_chunks
    assert not replace(task.problem, penalty=Invariant(100.0)).in_chunks
    assert not replace(task.problem, penalty=None).in_chunks


@pytest.mark.slow
def test_dealt_rows_keep_less_that_all_people_show():
    """Groups of equal means and covariances; the rows of one group have heavy tails."""
    random = np.random.default_rng(0)
    groups = np.array(["a", "b"])[random.integers(0, 2, 2000)]
    rows, b = random.standard_normal((2000, 8)), groups == "b"
    rows[b] *= np.where(random.random((b.sum(), 8)) < 0.5, 1.6, 0.3)
    matrix = rows @ random.standard_normal((8, 20)) + 0.3 * random.standard_normal((2000, 20))
    model = FairCP(rank=8, method=Invariant(100.0, chunk_size=100))
    task = Settings.of(model).bind(TensorData(torch.as_tensor(matrix)), groups)
    starts = tuple(factor[None] for factor in task.fit_plain().cp.factors)
    everybody = Invariant(chunk_size=2000).criterion(
        task.problem.penalized_features, task.problem.prototype
    )
    settings = {"starts": starts, "stop": Stop(max_iter=120, tol=0.0)}
    dealt, fixed = (
        everybody.deviations(solve(task.problem, task.settings.solver, **settings)[0].cp.factors[0])
        for solve in (solve_dealt, solve_twice)
    )
    assert float(dealt.square().mean()) < 0.7 * float(fixed.square().mean())


def test_the_objective_is_that_of_chunks_that_were_not_fitted(task, starts):
    stop = Stop(max_iter=25, tol=0.0)
    (fit,) = solve_dealt(task.problem, task.settings.solver, starts=starts, stop=stop)
    judged = task.problem.evaluate([factor[None] for factor in fit.cp.factors])
    assert fit.objective == pytest.approx(float(judged.value), rel=1e-6)
    assert fit.n_iter == 25
    assert fit.status is Status.OUT_OF_ITERATIONS


def test_members_of_a_batch_have_their_own_strength(task, starts):
    problem = task.problem.with_strengths(torch.tensor([0.0, 300.0], dtype=torch.float64))
    both = tuple(factor.repeat(2, 1, 1) for factor in starts)
    seen = []
    found = solve_dealt(
        problem,
        task.settings.solver,
        starts=both,
        stop=Stop(max_iter=30),
        on_fit=lambda member, fit: seen.append(member),
    )
    assert seen == [0, 1]
    assert found[0].residual < found[1].residual
    assert found[0].before_noise.penalty == 0


def test_a_fit_converges_and_can_be_interrupted(task, starts):
    stop = Stop(max_iter=2000, tol=1e-3)
    (fit,) = solve_dealt(task.problem, task.settings.solver, starts=starts, stop=stop)
    assert fit.status is Status.CONVERGED

    def interrupt(number, objective):
        if number == 13:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after 13 iterations"):
        solve_dealt(
            task.problem, task.settings.solver, starts=starts, stop=stop, on_iteration=interrupt
        )


def test_an_interruption_between_two_deals_keeps_the_fit(task, starts, monkeypatch):
    def interrupt(problem, deal):
        if deal == 3:
            raise KeyboardInterrupt
        return with_deal(problem, deal)

    with_deal = Problem.with_deal
    monkeypatch.setattr(Problem, "with_deal", interrupt)
    with pytest.raises(Interrupted, match="interrupted after 20 iterations") as caught:
        solve_dealt(task.problem, task.settings.solver, starts=starts, stop=Stop(tol=0.0))
    assert caught.value.fit.status is Status.INTERRUPTED
    assert caught.value.fit.cp.factors[0].dtype == torch.float64


def test_deals_that_the_start_was_fitted_to_are_not_fitted_again(task, starts, monkeypatch):
    with_deal, seen = Problem.with_deal, []

    def spy(problem, deal):
        seen.append(deal)
        return with_deal(problem, deal)

    monkeypatch.setattr(Problem, "with_deal", spy)
    settings = {"starts": starts, "stop": Stop(max_iter=30, tol=0.0)}
    solve_dealt(task.problem, task.settings.solver, dealt=4, **settings)
    assert seen == [5, 6, 7]


def test_steps_are_found_where_components_nearly_cancel(task, starts, monkeypatch):
    monkeypatch.setattr("parafair.solvers.problem.LEAST_IN_SINGLE", 0)
    # The same decomposition, with two components that are a million times their difference.
    rows, *others = (factor.clone() for factor in starts)
    far = rows[..., :1] * 1e6
    doubled = [torch.cat([factor, factor[..., :1]], -1) for factor in others]
    doubled[0][..., -1] *= 1 + 1e-6
    starts = (torch.cat([far, rows[..., 1:], -far], -1), *doubled)
    problem = replace(task.problem, rank=starts[0].shape[-1])
    stop = Stop(max_iter=20, tol=0.0)
    (fit,) = solve_dealt(problem, task.settings.solver, starts=starts, stop=stop)
    # About one evaluation for a step, and one for a deal.
    assert fit.counts["evaluations"] <= 40
    assert fit.counts["restarts"] == 0


def test_curvature_lasts_when_chunks_change(task, starts, monkeypatch):
    stop = Stop(max_iter=40, tol=0.0)
    (lasting,) = solve_dealt(task.problem, task.settings.solver, starts=starts, stop=stop)
    monkeypatch.setattr("parafair.solvers.dealing.ResumingSolver", ())
    (anew,) = solve_dealt(task.problem, task.settings.solver, starts=starts, stop=stop)
    assert lasting.n_iter == anew.n_iter == 40
    assert lasting.counts["evaluations"] < anew.counts["evaluations"]


@pytest.mark.parametrize("kind", ["groups", "numbers"])
def test_another_deal_has_everybody_once_and_the_same_groups_in_a_chunk(kind):
    random = np.random.default_rng(0)
    values = random.integers(0, 3, 410) if kind == "groups" else random.standard_normal(410)
    features = SensitiveFeatures.of(values.astype(str) if kind == "groups" else values)
    rows = torch.as_tensor(random.standard_normal((410, 2)))
    first = SMALL.criterion(features, rows)
    other = first.with_deal(5)
    assert set(other.places.flatten().tolist()) == set(range(410))
    assert not torch.equal(other.places, first.places)
    assert other.reference == first.reference
    if kind == "groups":
        codes = features.columns[0].values
        np.testing.assert_array_equal(codes[other.places], codes[first.places])
    fresh = SMALL.criterion(features, rows)
    expected = replace(fresh, sensitive=features)
    expected.__dict__["chunks"] = other.chunks
    expected.__dict__["reference"] = first.reference
    torch.testing.assert_close(
        other.value_and_gradient(rows[None])[0], expected.value_and_gradient(rows[None])[0]
    )
