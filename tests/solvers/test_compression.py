import pytest
import torch

from parafair.algebra.cp_tensor import reconstruct
from parafair.data.tensor_data import TensorData
from parafair.solvers import BlockDescent, Stop, solve_batch
from parafair.solvers.compression import compressed_starts
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem

STOP = Stop(max_iter=500, tol=1e-8)
SIZES, RANK = (40, 30, 20), 2


def problem_of(noise=0.0, sizes=SIZES, rank=RANK):
    generator = torch.Generator().manual_seed(0)
    tensor = reconstruct([torch.randn(size, rank, generator=generator).double() for size in sizes])
    drawn = torch.randn(tensor.shape, generator=generator).double()
    return Problem(TensorData.from_array(tensor + noise * tensor.std() * drawn), rank)


def test_an_exact_model_is_found_in_the_compressed_tensor():
    problem = problem_of()
    starts = make_starts(problem, "normal", count=2, seed=0)
    found = compressed_starts(problem, starts, stop=STOP)
    assert [factor.shape for factor in found] == [(2, size, RANK) for size in SIZES]
    assert float(problem.evaluate(found).residual.min()) < 1e-3


def test_fits_continue_near_the_end():
    problem = problem_of(noise=0.5)
    starts = make_starts(problem, "normal", count=1, seed=0)
    better = compressed_starts(problem, starts, stop=STOP)
    (fit,) = solve_batch(problem, BlockDescent(), starts=better, stop=STOP)
    (whole,) = solve_batch(problem, BlockDescent(), starts=starts, stop=STOP)
    assert fit.residual == pytest.approx(whole.residual, rel=1e-3)
    assert fit.n_iter < whole.n_iter


def test_what_would_not_become_small_is_left_alone():
    small = problem_of(sizes=(8, 7, 6))
    starts = make_starts(small, "normal", count=1, seed=0)
    assert compressed_starts(small, starts, stop=STOP) is starts
    missing = problem_of().data.values.clone()
    missing[0, 0, 0] = torch.nan
    holes = Problem(TensorData.from_array(missing), RANK)
    starts = make_starts(holes, "normal", count=1, seed=0)
    assert compressed_starts(holes, starts, stop=STOP) is starts
