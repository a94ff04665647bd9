import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.penalties import HSIC, KHSIC, BoundAutograd, Invariant, Orthogonality
from parafair.solvers import BlockDescent, GradientBCD, solve, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from parafair.solvers.result import Status, Stop
from parafair.testing import SolverContract, example_rows
from tests.conftest import dense_of, small_problem
from tests.reference import paper_bcd

PENALTIES = {
    "none": None,
    "fatr": Orthogonality(0.05, ridge=0.1),
    "hsic": HSIC(20.0),
    "khsic": KHSIC(50.0),
}
SLOW_PENALTIES = {
    "none": lambda s: None,
    "fatr": lambda s: lambda a: paper_bcd.fatr_penalty(a, s, 0.05, 0.1),
    "hsic": lambda s: lambda a: paper_bcd.hsic_penalty(a, s, 20.0),
    "khsic": lambda s: lambda a: paper_bcd.khsic_penalty(a, s, 50.0),
}
SHAPES = {2: (24, 9), 3: (24, 9, 7), 4: (24, 5, 4, 3)}


def starts_of(problem, count=1, seed=0):
    return make_starts(problem, "uniform", count=count, seed=seed)


class TestGradientBCD(SolverContract):
    @pytest.fixture
    def solver(self):
        return GradientBCD((0.05, 0.05), inner_steps=20)

    @pytest.fixture(params=PENALTIES)
    def problem(self, request):
        return small_problem(PENALTIES[request.param])

    @pytest.mark.parametrize("order", SHAPES)
    @pytest.mark.parametrize("method", PENALTIES)
    @pytest.mark.parametrize("mode", [0, 1])
    def test_follows_the_papers_iteration_to_rounding(self, method, order, mode):
        problem = small_problem(PENALTIES[method], shape=SHAPES[order], mode=mode)
        steps = (0.02, 0.01)
        starts = starts_of(problem)
        slow_penalty = SLOW_PENALTIES[method](problem.sensitive.encode())
        slow = [factor[0] for factor in starts]
        for _ in range(3):
            slow = paper_bcd.round_of_steps(
                problem.data.values, slow, slow_penalty, steps, 25, mode
            )
        solver = GradientBCD(steps, inner_steps=25, cap=False)
        (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(3, 0))
        for mine, theirs in zip(fit.cp.factors, slow, strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=1e-9, atol=1e-11)
        expected = paper_bcd.objective(problem.data.values, slow, slow_penalty, mode)
        assert fit.objective == pytest.approx(float(expected), rel=1e-9)

    def test_steps_within_the_curvature_are_not_capped(self):
        problem = small_problem(HSIC(20.0))
        solvers = [GradientBCD((1e-3, 1e-3), 20, cap=cap) for cap in (True, False)]
        fits = [
            solve_batch(problem, s, starts=starts_of(problem), stop=Stop(3, 0)) for s in solvers
        ]
        assert fits[0][0].counts == {"blocks": 9, "capped": 0}
        assert fits[0][0].objective == fits[1][0].objective

    @pytest.mark.parametrize("method", ["none", "fatr", "hsic"])
    def test_capped_steps_never_increase_the_objective(self, method):
        problem = small_problem(PENALTIES[method])
        solver = GradientBCD((1e3, 1e3), inner_steps=10)
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(30, 0))
        assert fit.counts == {"blocks": 90, "capped": 90}
        values = [entry.objective for entry in fit.history]
        assert all(np.diff(values) <= 1e-9 * np.array(values[:-1]))

    def test_printed_steps_of_fatr_diverge_on_the_papers_data(self):
        # The printed step 3 exceeds 2 / (2 a_l2) = 1, what the ridge alone allows.
        data = datasets.synthetic(0)
        problem = Problem(
            TensorData.from_array(data.tensor),
            8,
            penalty=Orthogonality(0.1, ridge=1.0),
            sensitive=SensitiveFeatures.of(data.sensitive_features),
        )
        uncapped = GradientBCD((3.0, 1.0), cap=False)
        (fit,) = solve_batch(problem, uncapped, starts=starts_of(problem), stop=Stop(60, 0))
        assert fit.status is Status.DIVERGED
        assert all(torch.isfinite(factor).all() for factor in fit.cp.factors)
        assert np.isfinite(fit.objective)
        (capped,) = solve_batch(
            problem, GradientBCD((3.0, 1.0)), starts=starts_of(problem), stop=Stop(60, 0)
        )
        assert capped.status is Status.OUT_OF_ITERATIONS
        assert capped.counts["capped"] > 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"step_sizes": (1.0,)}, "step_sizes must be two positive numbers"),
            ({"step_sizes": (1.0, 0.0)}, "step_sizes must be two positive numbers"),
            ({"inner_steps": 0}, "inner_steps must be at least 1, got 0"),
        ],
    )
    def test_bad_settings_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            GradientBCD(**options)


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
            problem, BlockDescent(), starts=starts_of(problem, 3), stop=Stop(200, 0)
        ):
            assert (np.diff([entry.objective for entry in fit.history]) <= 0).all()

    def test_objective_never_increases(self, solver, problem):
        for fit in solve_batch(problem, solver, starts=starts_of(problem, 3), stop=Stop(60, 0)):
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

    def test_extrapolation_reaches_a_better_objective_in_the_same_iterations(self):
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
        with pytest.raises(ValueError, match="inner_steps must be at least 1"):
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
    moved = solve(
        problem, steps, start=[starts_of(problem)[0][0], *begin[1:]], stop=Stop(50, 1e-13)
    )
    torch.testing.assert_close(moved.cp.factors[0], begin[0], rtol=1e-4, atol=1e-4)


class TestLoop:
    def test_members_leave_when_they_are_done(self):
        problem = small_problem()
        starts = starts_of(problem, 4)
        batch = solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(300, 1e-6))
        assert len({fit.n_iter for fit in batch}) > 1  # so removal did take place
        for member, fit in enumerate(batch):
            alone = solve(
                problem,
                BlockDescent(),
                start=[factor[member] for factor in starts],
                stop=Stop(300, 1e-6),
            )
            assert fit.status is alone.status is Status.CONVERGED
            assert fit.n_iter == alone.n_iter
            assert fit.objective == pytest.approx(alone.objective, rel=1e-9)

    def test_a_diverging_member_does_not_disturb_the_others(self):
        problem = small_problem(HSIC(20.0))
        good = starts_of(problem)
        wild = tuple(1e3 * factor for factor in good)
        both = tuple(torch.cat(pair) for pair in zip(wild, good, strict=True))
        solver = GradientBCD((0.02, 0.02), inner_steps=20, cap=False)
        diverged, fine = solve_batch(problem, solver, starts=both, stop=Stop(5, 0))
        assert diverged.status is Status.DIVERGED
        (alone,) = solve_batch(problem, solver, starts=good, stop=Stop(5, 0))
        assert fine.status is Status.OUT_OF_ITERATIONS
        assert fine.objective == pytest.approx(alone.objective, rel=1e-12)

    def test_history_has_one_entry_per_round_and_the_start(self):
        seen = []
        problem = small_problem(HSIC(1.0))
        (fit,) = solve_batch(
            problem,
            BlockDescent(),
            starts=starts_of(problem),
            stop=Stop(4, 0),
            on_iteration=lambda number, objective: seen.append((number, float(objective.value))),
        )
        assert [number for number, _ in seen] == [1, 2, 3, 4]
        assert [value for _, value in seen] == [entry.objective for entry in fit.history[1:]]
        for entry in fit.history:
            assert entry.objective == pytest.approx(entry.loss + entry.penalty)
        assert all(np.diff([entry.seconds for entry in fit.history]) >= 0)

    def test_interruption_keeps_the_last_round(self):
        problem = small_problem()

        def interrupt(number, objective):
            if number == 3:
                raise KeyboardInterrupt

        with pytest.raises(Interrupted, match="interrupted after 3 iterations") as caught:
            solve_batch(
                problem,
                BlockDescent(),
                starts=starts_of(problem),
                stop=Stop(9, 0),
                on_iteration=interrupt,
            )
        fit = caught.value.fit
        assert fit.status is Status.INTERRUPTED
        judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
        assert float(judged.value) == pytest.approx(fit.objective)

    def test_time_limit(self):
        problem = small_problem()
        (fit,) = solve_batch(
            problem,
            BlockDescent(),
            starts=starts_of(problem),
            stop=Stop(10_000, 0, max_seconds=0.05),
        )
        assert fit.status is Status.OUT_OF_TIME

    def test_a_start_that_overflows_is_refused(self):
        problem = small_problem()
        huge = tuple(torch.full_like(factor, 1e200) for factor in starts_of(problem))
        with pytest.raises(ValueError, match="not finite at the start"):
            solve_batch(problem, GradientBCD(), starts=huge)


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
        (fit,) = solve_batch(problem, BlockDescent(), starts=starts_of(problem), stop=Stop(40, 0))
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


def test_people_left_out_of_the_criterion_do_not_change_it():
    rows = example_rows(24, 3, seed=3)
    groups = ["a", "b"] * 9 + [None] * 6
    known = SensitiveFeatures.of(groups[:18])
    all_people = SensitiveFeatures.of(groups, missing="exclude")
    for penalty in (*PENALTIES.values(), Invariant(5.0)):
        if penalty is None:
            continue
        tensor = small_problem().data.values
        whole = Problem(TensorData.from_array(tensor), 3, 0, penalty, all_people)
        part = Problem(TensorData.from_array(tensor[:18]), 3, 0, penalty, known)
        ridge = getattr(penalty, "ridge", 0.0) * rows[18:].square().sum()
        # The invariant penalty is in units of all entries.
        unit = float(tensor.square().mean() / tensor[:18].square().mean())
        unit = unit if isinstance(penalty, Invariant) else 1.0
        value, gradient = whole.bound.value_and_gradient(rows[None])
        expected, slope = part.bound.value_and_gradient(rows[None, :18])
        torch.testing.assert_close(value, unit * expected + ridge)
        torch.testing.assert_close(gradient[:, :18], unit * slope)
        if not getattr(penalty, "ridge", 0.0):
            assert not gradient[:, 18:].any()
