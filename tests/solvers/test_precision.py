from itertools import pairwise

import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.penalties import Invariant
from parafair.solvers import LBFGS, BlockDescent, Status, Stop, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.precision import solve_single, solve_twice
from parafair.solvers.problem import Problem
from tests.reference.kinds import KINDS, draw

STOP = Stop(max_iter=400, tol=1e-5)


@pytest.fixture(autouse=True)
def few_entries_are_enough(monkeypatch):
    monkeypatch.setattr("parafair.solvers.problem.LEAST_IN_SINGLE", 0)


def problem_of(scale=1.0, dtype=torch.float64, strength=3.0):
    tensor, groups, rank = draw(KINDS[0], 0, 60)
    data = TensorData.from_array(torch.from_numpy(scale * np.asarray(tensor)).to(dtype))
    return Problem(data, rank, 0, Invariant(strength), SensitiveFeatures.of(groups))


def starts_of(problem, count=2):
    return make_starts(problem, "normal", count=count, seed=0)


@pytest.mark.slow
def test_two_precisions_end_where_double_precision_does():
    problem = problem_of()
    starts = starts_of(problem)
    found = solve_twice(problem, LBFGS(), starts=starts, stop=STOP)
    expected = solve_batch(problem, LBFGS(), starts=starts, stop=STOP)
    for fit, other in zip(found, expected, strict=True):
        assert fit.cp.factors[0].dtype == torch.float64
        assert fit.status is Status.CONVERGED
        assert fit.objective == pytest.approx(other.objective, rel=0.02)
        exact = problem.evaluate([factor[None] for factor in fit.cp.factors])
        assert fit.objective == pytest.approx(float(exact.value), rel=1e-12)


def test_both_runs_are_one_history():
    problem, numbers, finished = problem_of(), [], {}
    (fit,) = solve_twice(
        problem,
        LBFGS(),
        starts=starts_of(problem, 1),
        stop=STOP,
        on_iteration=lambda number, _: numbers.append(number),
        on_fit=finished.__setitem__,
    )
    assert numbers == list(range(1, fit.n_iter + 1))
    assert finished == {0: fit}
    assert fit.counts["evaluations"] > fit.n_iter
    objectives = [entry.objective for entry in fit.history]
    assert all(b <= a * (1 + 1e-5) for a, b in pairwise(objectives))
    seconds = [entry.seconds for entry in fit.history]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_limits_count_for_both_runs(limit):
    problem = problem_of()
    stop = Stop(max_iter=limit, tol=1e-12)
    for fit in solve_twice(problem, LBFGS(), starts=starts_of(problem), stop=stop):
        assert fit.n_iter == limit
        assert fit.status is Status.OUT_OF_ITERATIONS


def test_the_last_digits_are_those_of_double_precision():
    problem = problem_of(strength=0.0)
    stop = Stop(max_iter=2000, tol=1e-12)
    (fit,) = solve_twice(problem, BlockDescent(), starts=starts_of(problem, 1), stop=stop)
    starts = tuple(factor[None] for factor in fit.cp.factors)
    _, gradients, _ = problem.value_and_gradients(starts)
    size = problem.norm_squared / problem.count
    assert all(float(gradient.abs().max()) < 1e-6 * size for gradient in gradients)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.slow
def test_data_too_large_or_small_for_single_precision_is_fitted_in_double(scale):
    problem = problem_of(scale)
    assert problem.single is problem
    (fit,) = solve_twice(problem, LBFGS(), starts=starts_of(problem, 1), stop=STOP)
    assert fit.status is Status.CONVERGED


def test_single_precision_is_one_run():
    problem = problem_of(dtype=torch.float32)
    assert problem.single is problem
    (fit,) = solve_single(problem, LBFGS(), starts=starts_of(problem, 1), stop=STOP)
    assert fit.cp.factors[0].dtype == torch.float32


@pytest.mark.slow
def test_members_keep_their_strengths_in_single_precision():
    problem = problem_of().with_strengths(torch.tensor([0.0, 5.0], dtype=torch.float64))
    plain, fair = solve_single(problem, LBFGS(), starts=starts_of(problem, 2), stop=STOP)
    assert plain.before_noise.penalty == 0
    assert fair.before_noise.penalty > 0
    second = problem.take(torch.tensor([1]))
    assert second.single.strengths.tolist() == [5.0]
    assert second.single.data is problem.single.data


def test_an_interruption_returns_factors_in_the_precision_of_the_data():
    problem = problem_of()

    def interrupt(number, _):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after 3 iterations") as caught:
        solve_twice(
            problem, LBFGS(), starts=starts_of(problem, 1), stop=STOP, on_iteration=interrupt
        )
    assert caught.value.fit.cp.factors[0].dtype == torch.float64
    assert caught.value.fit.n_iter == 3


def test_few_entries_are_fitted_in_double(monkeypatch):
    monkeypatch.undo()
    problem = problem_of()
    assert problem.single is problem
