import numpy as np
import pytest
import torch

from parafair.penalties import Invariant
from parafair.solvers import LBFGS, solve_batch
from parafair.solvers.result import Stop
from parafair.testing import SolverContract
from tests.conftest import small_problem
from tests.solvers.conftest import starts_of


class TestLBFGS(SolverContract):
    @pytest.fixture
    def solver(self):
        return LBFGS()

    @pytest.fixture(params=[None, Invariant(2.0)], ids=["none", "invariant"])
    def problem(self, request):
        return small_problem(request.param)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_objective_never_increases(self, solver, problem, dtype):
        problem = small_problem(problem.penalty, dtype=dtype)
        for fit in solve_batch(problem, solver, starts=starts_of(problem, 3), stop=Stop(60, 0)):
            assert (np.diff([entry.objective for entry in fit.history]) <= 0).all()
