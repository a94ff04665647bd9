from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData, audit
from parafair.model.preparation import Settings
from parafair.penalties import Invariant
from parafair.solvers import Status, Stop, decompose_from
from parafair.solvers.sampling import least_squares_rows
from parafair.solvers.slicing import can_slice, sliced_start


def test_features_of_other_modes_in_chunks_do_not_matter():
    random = np.random.default_rng(0)
    people, items = np.arange(60) % 2, np.arange(300) % 2
    model = FairCP(rank=2, method=Invariant(30.0, chunk_size=100))
    task = Settings.of(model).bind(
        TensorData.from_array(random.standard_normal((60, 300))),
        SensitiveFeatures.of(people),
    )
    assert not task.problem.people_in_chunks
    other = replace(task.problem, other_sensitive={1: SensitiveFeatures.of(items)})
    assert other.in_chunks
    assert not other.people_in_chunks


def make_task(groups, *, people=500, chunk_size=100):
    """Return a fit of people whose groups differ; ten have no entries and ten no group."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((people, 5)) @ random.standard_normal((5, 12))
    codes = np.unique(groups, return_inverse=True)[1]
    matrix += 5 * (codes / codes.max())[:, None] * random.standard_normal(12)
    matrix[:10] = np.nan
    features = groups.astype(object)
    features[10:20] = None
    model = FairCP(rank=3, method=Invariant(30.0, chunk_size=chunk_size), ridge=0.1)
    return Settings.of(model).bind(
        TensorData.from_array(matrix), SensitiveFeatures.of(features, missing="exclude")
    )


@pytest.fixture
def halves():
    return np.array(["a", "b"])[np.random.default_rng(1).integers(0, 2, 500)]


def test_only_people_in_few_groups_have_such_a_start(halves):
    assert can_slice(make_task(halves).problem)
    assert can_slice(make_task(halves, chunk_size=1000).problem)
    many = np.arange(500) % 120
    assert not can_slice(make_task(many.astype(str), chunk_size=100).problem)


def test_groups_agree_at_the_start_and_others_stay_where_they_fit_best(halves):
    task = make_task(halves)
    problem, plain = task.problem, task.fit_plain()
    factors = sliced_start(problem, plain.cp.factors)
    before, after = (
        problem.evaluate([factor[None] for factor in each]).penalty
        for each in (plain.cp.factors, factors)
    )
    assert float(after) < 0.05 * float(before)
    others = [factor[None] for factor in factors[1:]]
    fitted = least_squares_rows(replace(problem, penalty=None), others)[0]
    torch.testing.assert_close(factors[0][10:20], fitted[10:20])


def test_numbers_are_cut_into_groups():
    ages = np.random.default_rng(2).normal(40, 10, 500)
    task = make_task(ages)
    before = task.fit_plain().cp.factors
    after = sliced_start(task.problem, task.fit_plain().cp.factors)
    penalties = [
        float(task.problem.evaluate([factor[None] for factor in each]).penalty)
        for each in (before, after)
    ]
    assert penalties[1] < 0.3 * penalties[0]


def test_a_member_without_a_penalty_or_that_diverged_has_one_start(halves, monkeypatch):
    task, seen = make_task(halves), []
    monkeypatch.setattr(
        "parafair.solvers.contest_of_many.sliced_start",
        lambda problem, factors: seen.append(factors) or sliced_start(problem, factors),
    )
    plain = task.fit_plain()
    broken = replace(
        plain,
        cp=replace(plain.cp, factors=tuple(f * torch.nan for f in plain.cp.factors)),
        status=Status.DIVERGED,
    )
    members = [plain, plain, broken]
    problem = task.problem.with_strengths(torch.tensor([0.0, 30.0, 30.0], dtype=torch.float64))
    fits = decompose_from(problem, task.settings.solver, plain=members, stop=Stop(max_iter=10))
    assert len(seen) == 1
    assert [fit.status is Status.DIVERGED for fit in fits] == [False, False, True]


def test_starts_compete_among_a_sample_if_there_are_many_more_people(halves, monkeypatch):
    task, seen = make_task(halves), []

    def spy(problem, factors):
        seen.append(len(problem.penalized_features))
        return sliced_start(problem, factors)

    monkeypatch.setattr("parafair.solvers.contest_of_many.sliced_start", spy)
    monkeypatch.setattr("parafair.solvers.contest_of_many.CONTEST_PEOPLE", 200)
    plain, whole = task.fit_plain(), task.problem
    (fit,) = decompose_from(whole, task.settings.solver, plain=[plain], stop=Stop(max_iter=10))
    everybody = len(whole.penalized_features)
    # The contest first; everybody is moved only if that start won.
    assert seen in ([200], [200, everybody])
    assert fit.cp.shape == whole.shape
    assert fit.counts["rough iterations"] > 0


def test_the_lower_objective_wins(halves, monkeypatch):
    task = make_task(halves)
    plain, stop = task.fit_plain(), Stop(max_iter=30)

    def objective():
        (fit,) = decompose_from(task.problem, task.settings.solver, plain=[plain], stop=stop)
        return fit.objective

    both = objective()
    monkeypatch.setattr("parafair.solvers.contest_of_many.can_slice", lambda problem: False)
    assert both <= objective()


@pytest.mark.slow
def test_people_of_many_types_end_at_chance():
    # Few types of people, and groups that prefer other types: a penalty alone leaves much of it.
    random = np.random.default_rng(5)
    groups = random.integers(0, 2, 4000)
    kinds = random.standard_normal((40, 6))
    odds = np.exp(random.standard_normal((2, 40)))
    chosen = [random.choice(40, p=odds[group] / odds[group].sum()) for group in groups]
    matrix = kinds[chosen] @ random.standard_normal((6, 25))
    matrix += 0.2 * random.standard_normal(matrix.shape)
    model = FairCP(rank=6, strength=3000.0).fit(matrix, sensitive_features=groups)
    found = audit(
        model.embedding_,
        sensitive_features=groups,
        attackers=["boosting", "forest", "network"],
        permutations=1,
        max_people=4000,
    )
    assert abs(found.leakage) < 0.04


@pytest.mark.parametrize("repaired", [1000, 400])
def test_people_of_one_chunk_who_are_too_many_for_the_repair_begin_there(
    halves, repaired, monkeypatch
):
    begun = []

    def note(problem, plain):
        begun.append(len(problem.penalized_features))
        return sliced_start(problem, plain)

    monkeypatch.setattr("parafair.solvers.contest.MOST_REPAIRED", repaired)
    monkeypatch.setattr("parafair.solvers.contest.sliced_start", note)
    task = make_task(halves, chunk_size=1000)
    decompose_from(
        task.problem, task.settings.solver, plain=[task.fit_plain()], stop=Stop(max_iter=3)
    )
    assert begun == ([480] if repaired == 400 else [])


def test_rows_that_may_not_be_anywhere_do_not_begin_there(halves, monkeypatch):
    monkeypatch.setattr("parafair.solvers.contest.MOST_REPAIRED", 400)
    monkeypatch.setattr("parafair.solvers.contest.sliced_start", None)
    task = make_task(halves, chunk_size=1000)
    problem = replace(task.problem, non_negative=(0,))
    decompose_from(problem, task.settings.solver, plain=[task.fit_plain()], stop=Stop(max_iter=3))
