import torch

from parafair.data.tensor_data import TensorData
from parafair.solvers import LBFGS, BlockDescent, Stop, decompose_plain
from parafair.solvers.init import make_starts
from parafair.solvers.plain import plain_solver
from parafair.solvers.problem import Problem
from tests.reference.kinds import KINDS, draw

STOP = Stop(max_iter=500, tol=1e-4)


def test_several_starts_find_the_same_plain_decomposition_with_any_seed():
    tensor, _, rank = draw(KINDS[1], 0, 200)
    problem = Problem(
        TensorData.from_array(tensor), rank
    )  # more than half of all starts end in a poor optimum
    each = [make_starts(problem, "uniform", count=5, seed=seed) for seed in range(12)]
    starts = tuple(torch.cat(mode) for mode in zip(*each, strict=True))
    residuals = [fit.residual for fit in decompose_plain(problem, starts=starts, stop=STOP, each=5)]
    assert len(residuals) == 12
    assert max(residuals) < 1.01 * min(residuals)


def test_very_long_lists_in_many_cells_take_no_gram_matrices(monkeypatch):
    random = torch.Generator().manual_seed(0)
    shape = (1000, 300, 300)  # more cells than are tabulated
    indices = torch.stack([torch.randint(n, (500,), generator=random) for n in shape]).unique(dim=1)
    values = torch.randn(indices.shape[1], generator=random, dtype=torch.float64)
    problem = Problem(TensorData(values, indices, shape), 2)
    assert isinstance(plain_solver(problem), BlockDescent)
    monkeypatch.setattr("parafair.solvers.plain.LONG_LIST", 100)
    assert isinstance(plain_solver(problem), LBFGS)
