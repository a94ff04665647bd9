import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import HSIC, Invariant, Orthogonality
from parafair.solvers import BlockDescent, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Status, Stop
from parafair.testing import SolverContract
from tests.conftest import dense_of, small_problem
from tests.reference import paper_bcd
from tests.solvers.conftest import PENALTIES, SHAPES, starts_of


class TestBlockDescent(SolverContract):
    @pytest.fixture(params=[True, False], ids=["extrapolated", "plain"])
    def solver(self, request):
        return BlockDescent(extrapolate=request.param)

    @pytest.fixture(params=[*PENALTIES, "invariant"])
    def problem(self, request):
        return small_problem({**PENALTIES, "invariant": Invariant(2.0)}[request.param])

    def test_extrapolated_objective_never_increases_in_single_precision(self, problem):
        problem = small_problem(problem.penalty, dtype=torch.float32)
        for fit in solve_batch(
            problem, BlockDescent(), starts=starts_of(problem, 2), stop=Stop(50, 0)
        ):
            assert (np.diff([entry.objective for entry in fit.history]) <= 0).all()

    def test_objective_never_increases(self, solver, problem):
        for fit in solve_batch(problem, solver, starts=starts_of(problem, 3), stop=Stop(40, 0)):
            values = np.array([entry.objective for entry in fit.history])
            assert (np.diff(values) <= 1e-12 * values[:-1]).all()

    def test_components_do_not_drift_off_and_cancel(self):
        # With exact updates of the other factors, means grow to thousands of times the data.
        data = datasets.synthetic(1, shape=(60, 30, 30))
        sensitive = SensitiveFeatures.of(data.sensitive_features)
        problem = Problem(TensorData.from_array(data.tensor), 8, 0, Invariant(10.0), sensitive)
        (fit,) = solve_batch(problem, BlockDescent(), starts=starts_of(problem), stop=Stop(80, 0))
        means = fit.cp.factors[0].mean(0).abs().max()
        assert float(means) < 100 * float(problem.data.values.square().mean().sqrt())
        assert fit.counts["stalls"] == 0

    @pytest.mark.parametrize("order", SHAPES)
    @pytest.mark.parametrize("mode", [0, 1])
    def test_the_sensitive_mode_carries_the_scale(self, solver, problem, order, mode):
        problem = small_problem(problem.penalty, shape=SHAPES[order], mode=mode)
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(5, 0))
        for other, factor in enumerate(fit.cp.factors):
            if other != mode:
                torch.testing.assert_close(
                    factor.square().mean(0), torch.ones(problem.rank, dtype=torch.float64)
                )

    def test_rescaling_the_start_changes_nothing(self, solver, problem):
        first, second, third = starts_of(problem)
        rescaled = (first / 50, second * 10, third * 5)
        (one,) = solve_batch(problem, solver, starts=(first, second, third), stop=Stop(10, 0))
        (two,) = solve_batch(problem, solver, starts=rescaled, stop=Stop(10, 0))
        assert one.objective == pytest.approx(two.objective, rel=1e-9)

    def test_order_of_components_does_not_matter_for_exact_blocks(self, solver):
        problem = small_problem()
        starts = starts_of(problem)
        flipped = tuple(factor.flip(-1) for factor in starts)
        (one,) = solve_batch(problem, solver, starts=starts, stop=Stop(10, 0))
        (two,) = solve_batch(problem, solver, starts=flipped, stop=Stop(10, 0))
        torch.testing.assert_close(
            one.cp.factors[0], two.cp.factors[0].flip(-1), rtol=1e-6, atol=1e-8
        )

    def test_order_of_people_does_not_matter(self, solver, problem):
        order = torch.randperm(problem.shape[0], generator=torch.Generator().manual_seed(0))
        column = problem.sensitive.columns[0]
        labels = np.array(column.categories)[column.values]
        shuffled = Problem(
            problem.data.take(0, order),
            problem.rank,
            penalty=problem.penalty,
            sensitive=type(problem.sensitive).of(labels[order.numpy()]),
        )
        first, second, third = starts_of(problem)
        (one,) = solve_batch(problem, solver, starts=(first, second, third), stop=Stop(10, 0))
        (two,) = solve_batch(
            shuffled, solver, starts=(first[:, order], second, third), stop=Stop(10, 0)
        )
        assert one.objective == pytest.approx(two.objective, rel=1e-8)

    def test_extrapolation_reaches_a_better_objective_in_as_many_iterations(self):
        problem = small_problem(shape=(60, 20, 20), rank=4)
        fits = [
            solve_batch(problem, BlockDescent(e), starts=starts_of(problem), stop=Stop(40, 0))[0]
            for e in (True, False)
        ]
        assert fits[0].objective <= fits[1].objective

    def test_finds_the_exact_decomposition(self):
        tensor = small_problem().data.values
        exact = paper_bcd.reconstruct(
            [torch.randn(n, 2, generator=torch.Generator().manual_seed(n)) for n in tensor.shape]
        ).double()
        problem = Problem(TensorData.from_array(exact), 2)
        fits = solve_batch(
            problem,
            BlockDescent(),
            starts=make_starts(problem, "normal", count=4, seed=0),
            stop=Stop(500, 1e-12),
        )
        assert min(fit.residual for fit in fits) < 1e-6

    def test_a_stronger_penalty_gives_less_dependence(self):
        penalties = []
        for strength in (1.0, 100.0, 10_000.0):
            problem = small_problem(HSIC(strength))
            (fit,) = solve_batch(
                problem, BlockDescent(), starts=starts_of(problem), stop=Stop(200, 1e-9)
            )
            penalties.append(fit.history[-1].penalty / strength)
        assert penalties[0] > penalties[1] > penalties[2]

    def test_a_penalty_that_offers_no_descent_ends_safely(self):
        class Deceptive:
            """A penalty whose gradient is wrong: every step looks like an increase."""

            strength = 1.0

            def bind(self, sensitive, tensor):
                return self

            def value(self, factor):
                return factor.abs().sum((-2, -1))

            def value_and_gradient(self, factor):
                return self.value(factor), torch.full_like(factor, 1e9)

        problem = small_problem(Deceptive())
        (fit,) = solve_batch(problem, BlockDescent(), starts=starts_of(problem), stop=Stop(20))
        assert fit.status in (Status.CONVERGED, Status.OUT_OF_ITERATIONS)
        assert fit.counts["stalls"] > 0
        values = np.array([entry.objective for entry in fit.history])
        assert (np.diff(values) <= 1e-12 * values[:-1]).all()

    def test_bad_settings_are_refused(self):
        with pytest.raises(ValueError, match="inner_steps must be a whole number of at least 1"):
            BlockDescent(inner_steps=0)


@pytest.mark.parametrize("shape", [(24, 9, 7), (30, 12)])
def test_plain_cp_reaches_tensorlys_error_from_the_same_start(shape):
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import parafac

    problem = small_problem(shape=shape)
    starts = starts_of(problem)
    init = tensorly.cp_tensor.CPTensor((None, [factor[0].numpy().copy() for factor in starts]))
    _, errors = parafac(
        problem.data.values.numpy(), 3, n_iter_max=2000, init=init, tol=1e-14, return_errors=True
    )
    (fit,) = solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(2000, 1e-12))
    assert fit.residual == pytest.approx(float(errors[-1]), rel=1e-4)


def test_plain_sweeps_are_als_sweeps():
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import parafac

    problem = small_problem()
    starts = starts_of(problem)
    init = tensorly.cp_tensor.CPTensor((None, [factor[0].numpy().copy() for factor in starts]))
    (fit,) = solve_batch(problem, BlockDescent(False), starts=starts, stop=Stop(6, 0))
    # Ours ends a sweep on the first mode, theirs begins with it: after 6 iterations ours lies
    # between their 6th and 7th error.
    _, errors = parafac(
        problem.data.values.numpy(), 3, n_iter_max=7, init=init, tol=0, return_errors=True
    )
    assert float(errors[6]) <= fit.residual <= float(errors[5])


@pytest.mark.parametrize("storage", ["masked", "sparse"])
@pytest.mark.parametrize("penalty", [None, Orthogonality(0.05, ridge=0.1), HSIC(20.0)])
def test_block_descent_ends_where_the_slow_gradient_vanishes(storage, penalty):
    problem = small_problem(penalty, storage=storage, ridge=0.1)
    (fit,) = solve_batch(problem, BlockDescent(), starts=starts_of(problem), stop=Stop(3000, 1e-13))
    factors = [factor.clone().requires_grad_() for factor in fit.cp.factors]
    value = paper_bcd.objective(dense_of(problem), factors, problem.bound and problem.bound.value)
    value = value + paper_bcd.ridge_penalty(factors, problem.ridge, 0) / problem.count
    assert value.item() == pytest.approx(fit.objective, rel=1e-9)
    # Of the sensitive factor, whose block is exact; scale is fixed in the others by convention.
    (slope,) = torch.autograd.grad(value, [factors[0]])
    assert slope.abs().max() < 1e-6


@pytest.mark.slow
def test_exact_recovery_from_30_percent_of_the_entries():
    data = datasets.synthetic(0, shape=(40, 30, 20), rank=3)
    tensor = torch.from_numpy(data.tensor)
    observed = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    listed = TensorData.from_array(tensor.masked_fill(~observed, torch.nan)).to_sparse()
    problem = Problem(listed, 3)
    fits = solve_batch(
        problem, BlockDescent(), starts=starts_of(problem, count=3), stop=Stop(1000, 1e-12)
    )
    best = min(fits, key=lambda fit: fit.objective)
    error = (best.cp.reconstruct() - tensor).norm() / tensor.norm()
    assert error < 1e-6
