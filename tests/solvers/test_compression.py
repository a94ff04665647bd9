import pytest
import torch

from parafair.algebra.cp_tensor import reconstruct
from parafair.data.tensor_data import TensorData
from parafair.solvers import BlockDescent, Stop, compression, solve_batch
from parafair.solvers.compression import compressed_fits
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem

STOP = Stop(max_iter=500, tol=1e-8)
SIZES, RANK = (40, 30, 20), 2


def problem_of(noise=0.0, sizes=SIZES, rank=RANK):
    generator = torch.Generator().manual_seed(0)
    tensor = reconstruct([torch.randn(size, rank, generator=generator).double() for size in sizes])
    drawn = torch.randn(tensor.shape, generator=generator).double()
    return Problem(TensorData.from_array(tensor + noise * tensor.std() * drawn), rank)


@pytest.fixture(params=[False, True], ids=["directions of all", "in turn"])
def in_turn(request, monkeypatch):
    """Whether later modes see what is left after earlier ones, as those of large tensors do."""
    if request.param:
        monkeypatch.setattr(compression, "LEAST_IN_TURN", 0)


@pytest.mark.usefixtures("in_turn")
def test_an_exact_model_is_found_in_the_compressed_tensor():
    problem = problem_of()
    starts = make_starts(problem, "normal", count=2, seed=0)
    found = compressed_fits(problem, starts, stop=STOP)
    for fit in found:
        assert [factor.shape for factor in fit.cp.factors] == [(size, RANK) for size in SIZES]
        exact = problem.evaluate([factor[None] for factor in fit.cp.factors])
        assert float(exact.residual) == pytest.approx(fit.residual, abs=1e-6)
    assert min(fit.residual for fit in found) < 1e-3


@pytest.mark.usefixtures("in_turn")
def test_fits_continue_near_the_end():
    problem = problem_of(noise=0.5)
    starts = make_starts(problem, "normal", count=1, seed=0)
    (small,) = compressed_fits(problem, starts, stop=STOP)
    better = tuple(factor[None] for factor in small.cp.factors)
    (fit,) = solve_batch(problem, BlockDescent(), starts=better, stop=STOP)
    (whole,) = solve_batch(problem, BlockDescent(), starts=starts, stop=STOP)
    assert fit.residual == pytest.approx(whole.residual, rel=1e-3)
    assert fit.n_iter < whole.n_iter


def test_further_starts_are_normal_and_come_last():
    problem = problem_of(noise=0.5)
    starts = make_starts(problem, "uniform", count=2, seed=0)
    alone = compressed_fits(problem, starts, stop=STOP)
    found = compressed_fits(problem, starts, stop=STOP, more=3)
    assert len(found) == 5
    assert [fit.objective for fit in found[:2]] == pytest.approx([fit.objective for fit in alone])
    other = compressed_fits(
        problem, make_starts(problem, "uniform", count=1, seed=9), stop=STOP, more=3
    )
    assert [fit.objective for fit in other[1:]] == pytest.approx(
        [fit.objective for fit in found[2:]]
    )


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_many_people_with_few_entries_each_are_compressed(noise, monkeypatch):
    problem = problem_of(noise, sizes=(300, 8, 6))
    starts = make_starts(problem, "normal", count=4, seed=0)
    monkeypatch.setattr(compression, "MOST_INDICES", 100)  # below the number of people
    few = compressed_fits(problem, starts, stop=STOP)
    monkeypatch.setattr(compression, "MOST_INDICES", 1000)
    usual = compressed_fits(problem, starts, stop=STOP)
    both = zip(few, usual, strict=True)
    assert all(one.residual == pytest.approx(two.residual, rel=1e-4, abs=1e-4) for one, two in both)
    best = min(few, key=lambda fit: fit.objective)
    exact = problem.evaluate([factor[None] for factor in best.cp.factors])
    # What is left of the noise in other directions is not in the compressed tensor.
    assert float(exact.residual) >= best.residual - 1e-6
    (fit,) = solve_batch(
        problem, BlockDescent(), starts=tuple(f[None] for f in best.cp.factors), stop=STOP
    )
    assert float(exact.residual) == pytest.approx(fit.residual, rel=0.02, abs=1e-3)


def test_what_would_not_become_small_is_left_alone():
    small = problem_of(sizes=(8, 7, 6))
    starts = make_starts(small, "normal", count=1, seed=0)
    assert compressed_fits(small, starts, stop=STOP) is None
    missing = problem_of().data.values.clone()
    missing[0, 0, 0] = torch.nan
    holes = Problem(TensorData.from_array(missing), RANK)
    starts = make_starts(holes, "normal", count=1, seed=0)
    assert compressed_fits(holes, starts, stop=STOP) is None
