from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.guarantees.limits import parity_limit
from parafair.penalties import KHSIC, Invariant
from parafair.solvers import (
    LBFGS,
    Status,
    Stop,
    decompose,
    decompose_from,
    decompose_plain,
    repair,
    solve_batch,
)
from parafair.solvers.fitting import starts_plain
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.race import ROUNDS
from tests.reference.kinds import KINDS, draw

STOP = Stop(max_iter=500, tol=1e-4)


def problem_of(kind, seed=0, strength=100.0, n=60):
    tensor, groups, rank = draw(kind, seed, n)
    return Problem(
        TensorData.from_array(tensor),
        rank,
        penalty=Invariant(strength),
        sensitive=SensitiveFeatures.of(groups),
    )


def plain_of(problem, seeds=(0,)):
    starts = [make_starts(problem, "uniform", count=1, seed=seed) for seed in seeds]
    starts = tuple(torch.cat(mode) for mode in zip(*starts, strict=True))
    return decompose_plain(problem, starts=starts, stop=STOP)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:1], ids=lambda kind: kind.__name__)
def test_a_fit_is_no_worse_than_a_rough_fit_from_either_end(kind):
    problem = problem_of(kind)
    (plain,) = plain_of(problem)
    (fit,) = decompose_from(problem, LBFGS(), plain=[plain], stop=STOP)
    for factors in (plain.cp.factors, repair(replace(problem, penalty=None), plain.cp.factors)):
        starts = tuple(factor[None] for factor in factors)
        (rough,) = solve_batch(problem, LBFGS(), starts=starts, stop=ROUNDS[0].stop(STOP))
        assert fit.objective <= rough.objective


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_fit_is_the_best_of_both_ends(kind, seed):
    problem, stop = problem_of(kind, seed), Stop(max_iter=2000, tol=1e-5)
    (plain,) = plain_of(problem)
    (fit,) = decompose_from(problem, LBFGS(), plain=[plain], stop=stop)
    for factors in (plain.cp.factors, repair(replace(problem, penalty=None), plain.cp.factors)):
        starts = tuple(factor[None] for factor in factors)
        (end,) = solve_batch(problem, LBFGS(), starts=starts, stop=stop)
        assert fit.objective <= 1.01 * end.objective


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_fit_is_about_as_good_as_the_better_path_from_both_ends(kind, seed):
    problem = problem_of(kind, seed)
    starts = make_starts(problem, "uniform", count=5, seed=seed)
    (plain,) = decompose_plain(problem, starts=starts, stop=Stop(), each=5)
    repaired = repair(replace(problem, penalty=None), plain.cp.factors)
    grid = [4.0**power for power in range(7)]
    paths = [
        path(problem, plain.cp.factors, grid),
        path(problem, repaired, grid[::-1]),
    ]
    for strength in (16.0, 256.0, 4096.0):
        own = replace(problem, penalty=Invariant(strength))
        (fit,) = decompose_from(own, LBFGS(), plain=[plain], stop=Stop())
        assert fit.status is Status.CONVERGED
        # A path has converged seven times, and where the objective is flat it comes a little
        # further: docs/decisions/starts.md.
        assert fit.objective <= 1.05 * min(found[strength] for found in paths)


def path(problem, factors, strengths):
    """Return the objective at each strength; each fit begins where the one before has converged."""
    found = {}
    for strength in strengths:
        own = replace(problem, penalty=Invariant(strength))
        starts = tuple(factor[None] for factor in factors)
        (fit,) = solve_batch(own, LBFGS(), starts=starts, stop=Stop())
        found[strength], factors = fit.objective, fit.cp.factors
    return found


def test_both_ends_of_an_exact_problem_are_known_and_a_fit_is_between_them():
    random = np.random.default_rng(0)
    groups = np.repeat([0, 1], 12)
    people = random.standard_normal((24, 2)) + groups[:, None]
    others = [random.standard_normal((size, 2)) for size in (7, 5)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    problem = Problem(
        TensorData.from_array(tensor),
        2,
        penalty=Invariant(30.0),
        sensitive=SensitiveFeatures.of(groups),
    )
    (plain,) = plain_of(problem)
    repaired = repair(replace(problem, penalty=None), plain.cp.factors)
    parity = float(problem.evaluate([factor[None] for factor in repaired]).residual)
    limit = parity_limit(tensor, sensitive_features=groups)
    assert plain.residual < 1e-4
    assert limit.residual == pytest.approx(limit.upper, rel=1e-6)
    assert parity == pytest.approx(limit.residual, rel=1e-4)
    (fit,) = decompose_from(problem, LBFGS(), plain=[plain], stop=STOP)
    assert 0.2 * parity < fit.residual < parity


def test_the_time_and_the_iterations_before_are_reported():
    problem = problem_of(KINDS[0], strength=200.0)
    (plain,) = plain_of(problem)
    numbers = []
    (fit,) = decompose_from(
        problem, LBFGS(), plain=[plain], stop=STOP, on_iteration=lambda n, _: numbers.append(n)
    )
    assert fit.counts["plain iterations"] == plain.n_iter
    assert fit.counts["rough iterations"] > 0
    assert fit.history[0].seconds > plain.seconds
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= fit.counts["rough iterations"] + fit.n_iter


@pytest.mark.slow
def test_members_of_a_batch_have_their_own_strength_and_start():
    problem = problem_of(KINDS[0])
    one, two = plain_of(problem, seeds=(0, 1))
    strengths = torch.tensor([0.0, 3.0, 100.0], dtype=torch.float64)
    finished = []
    fits = decompose_from(
        problem.with_strengths(strengths),
        LBFGS(),
        plain=[one, two, one],
        stop=STOP,
        on_fit=lambda member, _: finished.append(member),
    )
    assert sorted(finished) == [0, 1, 2]
    assert fits[0].residual == pytest.approx(one.residual, rel=1e-3)
    assert fits[0].residual < fits[1].residual < fits[2].residual
    assert [fit.counts["plain iterations"] for fit in fits] == [one.n_iter, two.n_iter, one.n_iter]
    (alone,) = decompose_from(
        replace(problem, penalty=Invariant(3.0)), LBFGS(), plain=[two], stop=STOP
    )
    # A batch rounds differently, and a quasi-Newton path amplifies it.
    assert alone.objective == pytest.approx(fits[1].objective, rel=0.01)


def test_numbers_begin_at_the_plain_decomposition_alone():
    tensor, _, rank = draw(KINDS[0], 0, 60)
    numbers = np.random.default_rng(0).standard_normal(60)
    problem = Problem(
        TensorData.from_array(tensor), rank, 0, Invariant(10.0), SensitiveFeatures.of(numbers)
    )
    (fit,) = decompose_from(problem, LBFGS(), plain=plain_of(problem), stop=STOP)
    assert np.isfinite(fit.objective)


def test_only_scale_free_penalties_begin_at_plain_decompositions():
    problem = problem_of(KINDS[0])
    assert starts_plain(problem)
    assert not starts_plain(replace(problem, penalty=KHSIC(1.0)))
    assert not starts_plain(replace(problem, penalty=None))


def test_given_factors_are_where_a_fit_begins():
    problem = problem_of(KINDS[0])
    starts = make_starts(problem, "normal", count=1, seed=5)
    (fit,) = decompose(problem, LBFGS(), starts=starts, stop=Stop(max_iter=1, tol=0))
    begin = LBFGS().init(problem, starts).objective.value
    assert fit.history[0].objective == pytest.approx(float(begin))
    assert "plain iterations" not in fit.counts


def test_an_interruption_during_a_repair_leaves_the_plain_decomposition(monkeypatch):
    problem = problem_of(KINDS[0])
    (plain,) = plain_of(problem)

    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.solvers.contest.repair", interrupt)
    with pytest.raises(Interrupted, match="the embedding is that of a plain") as caught:
        decompose_from(problem, LBFGS(), plain=[plain], stop=STOP)
    assert caught.value.strength == 0
    assert caught.value.fit.status is Status.INTERRUPTED
    assert torch.equal(caught.value.fit.cp.factors[0], plain.cp.factors[0])
