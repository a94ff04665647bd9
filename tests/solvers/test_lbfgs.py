import numpy as np
import pytest
import torch

from parafair import ConvergenceWarning, FairCP
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.errors import Interrupted
from parafair.penalties import HSIC, Invariant, Orthogonality
from parafair.solvers import LBFGS, BlockDescent, solve_batch, wolfe
from parafair.solvers.lbfgs import inverse_times, shapes_of
from parafair.solvers.parameters import flatten, unflatten
from parafair.solvers.preconditioner import preconditioner
from parafair.solvers.problem import Problem
from parafair.solvers.result import Status, Stop
from parafair.testing import SolverContract
from tests.conftest import small_problem
from tests.solvers.conftest import SHAPES, starts_of
from tests.waits import Waits


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

    @pytest.mark.parametrize("order", SHAPES)
    @pytest.mark.parametrize("mode", [0, 1])
    def test_the_sensitive_mode_carries_the_scale(self, solver, problem, order, mode):
        problem = small_problem(problem.penalty, shape=SHAPES[order], mode=mode)
        (fit,) = solve_batch(problem, solver, starts=starts_of(problem), stop=Stop(5, 0))
        assert fit.objective < fit.history[0].objective
        for other, factor in enumerate(fit.cp.factors):
            if other != mode:
                torch.testing.assert_close(
                    factor.square().mean(0), torch.ones(problem.rank, dtype=torch.float64)
                )

    def test_rescaling_the_start_changes_nothing(self, solver, problem):
        first, second, third = starts_of(problem)
        columns = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)
        rescaled = (first / 50 * columns, second / columns, third * 5)
        (one,) = solve_batch(problem, solver, starts=(first, second, third), stop=Stop(10, 0))
        (two,) = solve_batch(problem, solver, starts=rescaled, stop=Stop(10, 0))
        assert one.objective == pytest.approx(two.objective, rel=1e-9)

    @pytest.mark.parametrize("ridge", [0.0, 0.5])
    def test_masked_and_sparse_are_the_same(self, solver, problem, ridge):
        histories = []
        for storage in ("masked", "sparse"):
            some = small_problem(problem.penalty, storage=storage, ridge=ridge)
            (fit,) = solve_batch(some, solver, starts=starts_of(some), stop=Stop(20, 0))
            judged = some.evaluate([factor[None] for factor in fit.cp.factors])
            assert float(judged.value) == pytest.approx(fit.objective, rel=1e-9)
            histories.append([entry.objective for entry in fit.history])
        # Rounding grows from step to step.
        assert histories[0] == pytest.approx(histories[1], rel=1e-6)
        assert (np.diff(histories[0]) <= 0).all()

    def test_single_and_double_precision_agree(self, solver, problem):
        residuals = []
        for dtype in (torch.float32, torch.float64):
            some = small_problem(problem.penalty, dtype=dtype)
            (fit,) = solve_batch(some, solver, starts=starts_of(some), stop=Stop(10, 0))
            assert fit.cp.factors[0].dtype == dtype
            residuals.append(fit.residual)
        assert residuals[0] == pytest.approx(residuals[1], rel=1e-3)

    def test_members_that_leave_do_not_change_the_others(self, solver, problem):
        starts, stop = starts_of(problem, 3), Stop(40, 3e-3)
        together = solve_batch(problem, solver, starts=starts, stop=stop)
        assert len({fit.n_iter for fit in together}) > 1  # so removal did take place
        for member, fit in enumerate(together):
            alone = tuple(factor[member : member + 1] for factor in starts)
            (expected,) = solve_batch(problem, solver, starts=alone, stop=stop)
            assert fit.n_iter == expected.n_iter
            assert fit.counts == expected.counts
            # Products of a batch are summed in another order, and steps amplify the difference.
            assert fit.objective == pytest.approx(expected.objective, rel=1e-6)

    def test_taken_members_take_the_same_steps(self, solver, problem):
        state = solver.init(problem, starts_of(problem, 3))
        for _ in range(4):
            state = solver.step(problem, state)
        members = torch.tensor([2, 0], dtype=torch.long)
        some = state.take(members)
        assert torch.equal(some.steps, state.steps[members])
        expected, found = solver.step(problem, state), solver.step(problem, some)
        torch.testing.assert_close(found.point.vector, expected.point.vector[members])
        torch.testing.assert_close(found.objective.value, expected.objective.value[members])

    def test_only_some_pairs_are_kept(self, problem):
        solver = LBFGS(memory=3)
        state = solver.init(problem, starts_of(problem, 2))
        for _ in range(5):
            state = solver.step(problem, state)
        assert state.steps.shape == state.changes.shape == (2, 3, problem.rank * sum(problem.shape))


def test_members_may_differ_in_strength():
    problem = small_problem(Invariant(1.0))
    strengths = (0.5, 50.0)
    starts = starts_of(problem, 2)
    batch = problem.with_strengths(torch.tensor(strengths, dtype=torch.float64))
    fits = solve_batch(batch, LBFGS(), starts=starts, stop=Stop(15, 0))
    for member, (fit, strength) in enumerate(zip(fits, strengths, strict=True)):
        alone = tuple(factor[member : member + 1] for factor in starts)
        single = small_problem(Invariant(strength))
        (expected,) = solve_batch(single, LBFGS(), starts=alone, stop=Stop(15, 0))
        assert fit.objective == pytest.approx(expected.objective, rel=1e-7)


def two_sensitive_modes(strength):
    tensor = small_problem().data
    groups = {mode: SensitiveFeatures.of(["a", "b"] * (tensor.shape[mode] // 2)) for mode in (0, 1)}
    return Problem(
        TensorData.from_array(tensor.values[:, :8]),
        3,
        0,
        Invariant(strength),
        groups[0],
        other_sensitive={1: groups[1]},
    )


def test_two_sensitive_modes():
    problem = two_sensitive_modes(5.0)
    (fit,) = solve_batch(problem, LBFGS(), starts=starts_of(problem), stop=Stop(60, 0))
    assert (np.diff([entry.objective for entry in fit.history]) <= 0).all()
    before = problem.evaluate(starts_of(problem)).penalty
    assert fit.history[-1].penalty < 0.2 * float(before)


def test_plain_fits_are_as_close_as_those_of_block_descent():
    problem = small_problem(shape=(30, 12, 10))
    stop = Stop(300, 1e-8)
    block, all_at_once = (
        min(
            fit.residual for fit in solve_batch(problem, s, starts=starts_of(problem, 3), stop=stop)
        )
        for s in (BlockDescent(), LBFGS())
    )
    assert all_at_once <= block * (1 + 1e-5)


def test_a_step_takes_one_evaluation_except_for_a_few():
    plain = small_problem(shape=(40, 15, 10), rank=4)
    (start,) = solve_batch(plain, BlockDescent(), starts=starts_of(plain), stop=Stop(100, 1e-4))
    problem = small_problem(Invariant(16.0), shape=(40, 15, 10), rank=4)
    starts = tuple(factor[None] for factor in start.cp.factors)
    (fit,) = solve_batch(problem, LBFGS(), starts=starts, stop=Stop(50, 0))
    assert fit.objective < 0.5 * fit.history[0].objective
    assert fit.counts["evaluations"] < 1.3 * fit.n_iter


def test_a_step_waits_five_times_if_it_takes_one_evaluation():
    problem = small_problem(Invariant(16.0), shape=(40, 15, 10), rank=4)
    state, seen = LBFGS().init(problem, starts_of(problem)), []
    for _ in range(12):
        with Waits() as waits:
            after = LBFGS().step(problem, state)
        if int(after.evaluations) == int(state.evaluations) + 1:
            seen.append(sum(waits.found.values()))
        state = after
    assert len(seen) > 3
    assert set(seen) == {5}


@pytest.mark.parametrize("penalty", [HSIC(20.0), Orthogonality(0.05, ridge=0.1)])
def test_penalties_that_depend_on_the_scale_are_refused(penalty):
    problem = small_problem(penalty)
    with pytest.raises(ValueError, match="solver='lbfgs' needs a scale-free penalty such as .*got"):
        solve_batch(problem, LBFGS(), starts=starts_of(problem))


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="memory must be a whole number of at least 1, got 0"):
        LBFGS(memory=0)


def test_interruption_keeps_the_last_iteration():
    problem = small_problem(Invariant(2.0))

    def interrupt(number, objective):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after 3 iterations") as caught:
        solve_batch(
            problem, LBFGS(), starts=starts_of(problem), stop=Stop(9, 0), on_iteration=interrupt
        )
    fit = caught.value.fit
    assert fit.status is Status.INTERRUPTED
    judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
    assert float(judged.value) == pytest.approx(fit.objective)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_member_at_a_stationary_point_has_converged(dtype):
    problem = small_problem(ridge=0.5, dtype=dtype)
    (fit,) = solve_batch(problem, LBFGS(), starts=starts_of(problem), stop=Stop(500, 0))
    assert fit.status is Status.CONVERGED
    assert fit.n_iter < 300
    if dtype == torch.float64:
        _, gradients, _ = problem.value_and_gradients([factor[None] for factor in fit.cp.factors])
        assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-7


class Deceptive:
    """A penalty whose gradient is wrong after some evaluations: every step is an increase."""

    strength, scale_free = 1.0, True

    def __init__(self, honest):
        self.honest = honest

    def bind(self, sensitive, tensor):
        self.bound = Invariant(1.0).bind(sensitive, tensor)
        return self

    def basis(self, factor):
        return self.bound.basis(factor)

    def value(self, factor):
        return self.bound.value(factor)

    def value_and_gradient(self, factor):
        self.honest -= 1
        value, gradient = self.bound.value_and_gradient(factor)
        return value, gradient if self.honest >= 0 else torch.full_like(factor, 1e3)


@pytest.mark.parametrize("honest", [0, 5])
def test_a_member_that_cannot_move_is_stalled(honest):
    problem = small_problem(Deceptive(honest))
    (fit,) = solve_batch(problem, LBFGS(), starts=starts_of(problem), stop=Stop(50))
    assert fit.status is Status.STALLED
    assert "no step decreased the objective" in fit.status.value
    assert fit.n_iter < 10
    assert fit.counts["restarts"] >= 1
    values = [entry.objective for entry in fit.history]
    assert (np.diff(values) <= 0).all()
    judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
    assert float(judged.value) == pytest.approx(fit.objective)


def test_a_dead_component_is_no_problem():
    problem = small_problem(Invariant(2.0))
    starts = [factor.clone() for factor in starts_of(problem, 2)]
    starts[0][0, :, 1] = 0.0
    for factor in starts:
        factor[1, :, 2] = 0.0
    fits = solve_batch(problem, LBFGS(), starts=tuple(starts), stop=Stop(10, 0))
    for fit in fits:
        assert fit.objective < fit.history[0].objective
        assert all(torch.isfinite(factor).all() for factor in fit.cp.factors)


def test_the_quasi_newton_direction_is_that_of_the_two_loop_recursion():
    problem, solver = small_problem(Invariant(2.0), storage="masked", ridge=0.3), LBFGS(memory=6)
    state = solver.init(problem, starts_of(problem, 2))
    for _ in range(8):
        state = solver.step(problem, state)
    # A dropped pair must change nothing.
    for history in (state.steps, state.changes):
        history[0, 2] = 0.0
    factors = unflatten(state.point.vector, shapes_of(problem))
    parts = preconditioner(problem, factors, state.curvature, state.weights)

    def solve_all(vector):
        rows = zip(parts, unflatten(vector, shapes_of(problem)), strict=True)
        return flatten([part.solve(factor) for part, factor in rows])

    found = inverse_times(state.point.gradient, state.steps, state.changes, solve_all)
    for member in (0, 1):
        pairs = [
            (s, y)
            for s, y in zip(state.steps[member], state.changes[member], strict=True)
            if s.any()
        ]
        assert len(pairs) == 6 - (member == 0)

        def solve(vector, member=member):
            batch = torch.zeros_like(state.point.vector)
            batch[member] = vector
            rows = zip(parts, unflatten(batch, shapes_of(problem)), strict=True)
            return flatten([part.solve(factor) for part, factor in rows])[member]

        vector, weights = state.point.gradient[member], []
        for s, y in reversed(pairs):
            weights.append((s @ vector) / (s @ y))
            vector = vector - weights[-1] * y
        s, y = pairs[-1]
        vector = solve(vector) * ((s @ y) / (y @ solve(y)))
        for (s, y), weight in zip(pairs, reversed(weights), strict=True):
            vector = vector + (weight - (y @ vector) / (s @ y)) * s
        torch.testing.assert_close(found[member], vector)


def test_the_preconditioner_is_symmetric_and_positive():
    problem = small_problem(Invariant(2.0), storage="masked")
    state = LBFGS().init(problem, starts_of(problem))
    factors = unflatten(state.point.vector, shapes_of(problem))
    for part, factor in zip(
        preconditioner(problem, factors, state.curvature, state.weights), factors, strict=True
    ):
        size = factor[0].numel()
        unit = torch.eye(size, dtype=torch.float64).unflatten(1, factor.shape[1:])
        matrix = torch.stack([part.solve(row[None]).flatten() for row in unit])
        torch.testing.assert_close(matrix, matrix.mT)
        assert torch.linalg.eigvalsh(matrix).min() > 0


def test_a_model_uses_it_by_name_and_is_stored(data, tmp_path):
    model = FairCP(3, solver="lbfgs", strength=2.0, max_iter=200, tol=1e-3)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    assert model.fit_.status is Status.CONVERGED
    assert model.fit_.counts["evaluations"] > model.n_iter_
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(FairCP.load(tmp_path / "model").embedding_, model.embedding_)
    with pytest.raises(ValueError, match="use solver='block'"):
        FairCP(3, method="khsic", solver=LBFGS()).fit(
            data.tensor, sensitive_features=data.sensitive_features
        )


def test_a_model_warns_of_a_stall(data, monkeypatch):
    # No trial of any step is allowed.
    monkeypatch.setattr(wolfe, "MOST_TRIALS", 0)
    model = FairCP(3, method="none", solver="lbfgs")
    with pytest.warns(ConvergenceWarning, match="no step decreased the objective further"):
        model.fit(data.tensor)
    assert model.fit_.status is Status.STALLED
