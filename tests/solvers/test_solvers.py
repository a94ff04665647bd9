"""Both solvers: they agree with each other, on any data and with any penalty."""

import pytest
import torch

from parafair.penalties import HSIC, BoundAutograd, Invariant
from parafair.solvers import BlockDescent, GradientBCD, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop
from tests.conftest import small_problem
from tests.solvers.conftest import PENALTIES, starts_of


@pytest.mark.parametrize("method", PENALTIES)
@pytest.mark.parametrize("solver", [BlockDescent(), GradientBCD((0.05, 0.05), 20)], ids=["b", "g"])
def test_single_and_double_precision_agree(method, solver):
    residuals = []
    for dtype in (torch.float32, torch.float64):
        problem = small_problem(PENALTIES[method], dtype=dtype)
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(10, 0))
        assert fit.cp.factors[0].dtype == dtype
        residuals.append(fit.residual)
    assert residuals[0] == pytest.approx(residuals[1], rel=1e-3)


def test_solvers_agree_on_a_convex_block():
    # With one component and only A free to move, both solvers must find the same minimum.
    problem = small_problem(HSIC(20.0), rank=1)
    (exact,) = solve_batch(
        problem, BlockDescent(), starts=starts_of(problem), stop=Stop(2000, 1e-13)
    )
    steps = GradientBCD((1e3, 1e-9), inner_steps=5000)
    begin = exact.cp.factors
    starts = (starts_of(problem)[0], *(factor[None] for factor in begin[1:]))
    (moved,) = solve_batch(problem, steps, starts=starts, stop=Stop(50, 1e-13))
    torch.testing.assert_close(moved.cp.factors[0], begin[0], rtol=1e-4, atol=1e-4)


def test_a_penalty_by_automatic_differentiation_works_with_both_solvers():
    class Mine:
        strength = 1.0

        def bind(self, sensitive, tensor):
            groups = sensitive.encode(prototype=tensor)
            return BoundAutograd(lambda a: (groups.mT @ a.tanh()).square().sum((-2, -1)))

    problem = small_problem(Mine())
    for solver in (BlockDescent(), GradientBCD((0.01, 0.01), 10)):
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(10, 0))
        assert fit.objective < fit.history[0].objective


@pytest.mark.parametrize("method", [*PENALTIES, "invariant"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_masked_and_sparse_are_the_same_and_never_ascend(method, ridge):
    penalty = Invariant(5.0) if method == "invariant" else PENALTIES[method]
    histories = []
    for storage in ("masked", "sparse"):
        problem = small_problem(penalty, storage=storage, ridge=ridge)
        (fit,) = solve_batch(problem, BlockDescent(), starts=starts_of(problem), stop=Stop(25, 0))
        histories.append([entry.objective for entry in fit.history])
    # Later, rounding may tip the balance where values are compared.
    assert histories[0][:15] == pytest.approx(histories[1][:15], rel=1e-6)
    for before, after in zip(histories[0], histories[0][1:], strict=False):
        assert after <= before * (1 + 1e-9)


@pytest.mark.parametrize("method", [*PENALTIES, "invariant"])
@pytest.mark.parametrize("solver", [BlockDescent(), GradientBCD((0.02, 0.01), inner_steps=10)])
def test_a_mask_that_hides_nothing_changes_nothing(method, solver):
    penalty = Invariant(5.0) if method == "invariant" else PENALTIES[method]
    problem = small_problem(penalty)
    listed = Problem(problem.data.to_sparse(), 3, 0, penalty, problem.sensitive)
    # Without extrapolation: it decides by comparing values, and rounding may tip the balance.
    solver = BlockDescent(extrapolate=False) if isinstance(solver, BlockDescent) else solver
    fits = [
        solve_batch(p, solver, starts=starts_of(problem), stop=Stop(10, 0))[0]
        for p in (problem, listed)
    ]
    # Columns at fixed norms are minimized exactly only if all rows share one curvature.
    exact = method in ("none", "invariant") or isinstance(solver, GradientBCD)
    for mine, theirs in zip(*(fit.cp.factors for fit in fits), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6 if exact else 1e-3, atol=1e-6)
