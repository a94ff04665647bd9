import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import HSIC, KHSIC, Invariant
from parafair.solvers import LBFGS, BlockDescent, GradientBCD, solve_batch
from parafair.solvers.face import Face
from parafair.solvers.init import make_starts
from parafair.solvers.inner import USUAL
from parafair.solvers.lbfgs import evaluate
from parafair.solvers.parameters import flatten
from parafair.solvers.problem import Problem
from parafair.solvers.result import Stop

SHAPE, RANK = (24, 7, 6), 3
ALL = (0, 1, 2)


def problem_of(penalty=None, *, modes=ALL, missing=False, ridge=0.0, dtype="float64"):
    """Components with many zeros, whose first depends on the group, and 5 % noise."""
    random = np.random.default_rng(0)
    groups = np.arange(SHAPE[0]) % 2
    factors = [random.gamma(1.0, size=(n, RANK)) * (random.random((n, RANK)) < 0.7) for n in SHAPE]
    factors[0][:, 0] += groups
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    tensor += 0.05 * tensor.std() * random.random(SHAPE)
    if missing:
        tensor[random.random(SHAPE) < 0.3] = np.nan
    data = TensorData.from_array(tensor.astype(dtype))
    sensitive = SensitiveFeatures.of(groups)
    return Problem(data, RANK, 0, penalty, sensitive, ridge, non_negative=modes)


PENALTIES = {
    "none": None,
    "hsic": HSIC(1.0),
    "khsic": KHSIC(1.0),
    "invariant": Invariant(3.0),
}


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("name", [*PENALTIES, "lbfgs"])
@pytest.mark.parametrize("modes", [ALL, (0,), (1, 2)])
def test_factors_are_non_negative_and_the_objective_never_increases(name, modes, missing):
    penalty = PENALTIES.get(name, Invariant(3.0))
    solver = LBFGS() if name == "lbfgs" else BlockDescent()
    problem = problem_of(penalty, modes=modes, missing=missing, ridge=0.1 if missing else 0.0)
    starts = make_starts(problem, "normal", count=2, seed=0)
    for fit in solve_batch(problem, solver, starts=starts, stop=Stop(8, 0)):
        values = np.array([entry.objective for entry in fit.history])
        assert (np.diff(values) <= 1e-12 * values[:-1]).all()
        assert values[-1] < values[0]
        for mode in modes:
            assert (fit.cp.factors[mode] >= 0).all()
    if modes == (1, 2) and name == "none":
        assert (fit.cp.factors[0] < 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [None, Invariant(3.0)])
def test_solvers_reach_the_optimum_of_scipy_from_the_same_start(penalty):
    problem = problem_of(penalty)
    starts = make_starts(problem, "uniform", count=1, seed=1)
    plain = solve_batch(problem_of(), BlockDescent(), starts=starts, stop=Stop(300, 1e-9))
    begin = tuple(factor[None] for factor in plain[0].cp.factors)

    def objective(vector):
        point = evaluate(problem, torch.from_numpy(vector)[None])
        return float(point.objective.value), point.gradient[0].numpy()

    start = flatten(begin)[0].numpy()
    bounds = [(0, None)] * len(start)
    options = {"maxiter": 150, "maxfun": 200, "ftol": 1e-12}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    solvers = [LBFGS()] if penalty else [LBFGS(), BlockDescent()]
    for solver in solvers:
        (fit,) = solve_batch(problem, solver, starts=begin, stop=Stop(200, 1e-6))
        # Optima of a nonconvex problem differ a little.
        assert fit.objective <= 1.01 * found.fun


def test_zeros_of_a_start_can_become_positive():
    problem = problem_of()
    starts = make_starts(problem, "uniform", count=1, seed=1)
    starts[0][:, :5] = 0.0
    (fit,) = solve_batch(problem, LBFGS(), starts=starts, stop=Stop(100, 1e-6))
    assert (fit.cp.factors[0][:5] > 0).any(1).all()


def test_members_of_a_batch_end_as_alone():
    problem = problem_of(Invariant(3.0))
    starts = make_starts(problem, "uniform", count=2, seed=1)
    for solver in (BlockDescent(), LBFGS()):
        together = solve_batch(problem, solver, starts=starts, stop=Stop(4, 0))
        for member, fit in enumerate(together):
            own = tuple(factor[member : member + 1] for factor in starts)
            (alone,) = solve_batch(problem, solver, starts=own, stop=Stop(4, 0))
            assert fit.objective == pytest.approx(alone.objective, rel=1e-9)


def test_single_precision_is_non_negative_too():
    problem = problem_of(Invariant(3.0), dtype="float32")
    starts = make_starts(problem, "uniform", count=1, seed=1)
    for solver in (BlockDescent(), LBFGS()):
        (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(10, 0))
        assert all((factor >= 0).all() for factor in fit.cp.factors)
        assert fit.cp.factors[0].dtype == torch.float32


def test_our_error_is_that_of_tensorlys_hals():
    decomposition = pytest.importorskip("tensorly.decomposition")
    from tensorly.cp_tensor import CPTensor

    problem = problem_of()
    starts = make_starts(problem, "uniform", count=1, seed=1)
    begin = CPTensor((np.ones(RANK), [factor[0].numpy().copy() for factor in starts]))
    _, errors = decomposition.non_negative_parafac_hals(
        problem.data.values.numpy(), RANK, init=begin, n_iter_max=300, tol=1e-9, return_errors=True
    )
    (fit,) = solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(300, 1e-9))
    assert fit.residual <= 1.001 * float(errors[-1])


def test_negative_entries_are_refused_with_their_place():
    random = np.random.default_rng(0)
    tensor = random.random((4, 3, 2))
    tensor[2, 1, 0] = -0.5
    data = TensorData.from_array(tensor)
    with pytest.raises(ValueError, match="no negative entries .* got -0.5 at mode_0 2, mode_1 1"):
        Problem(data, 1, non_negative=ALL)
    assert Problem(data, 1, non_negative=(0, 1)).non_negative == (0, 1)
    tensor[3] = -1
    with pytest.raises(ValueError, match="at mode_0 2, mode_1 1, mode_2 0, and 6 more like it;"):
        Problem(TensorData.from_array(tensor), 1, non_negative=ALL)
    names, labels = ("who", "what", "day"), (list("abcd"), None, None)
    labeled = TensorData.from_array(tensor, modes=names, labels=labels)
    with pytest.raises(ValueError, match="got -0.5 at who c, what 1, day 0, and"):
        Problem(labeled, 1, non_negative=ALL)


def test_what_cannot_be_non_negative_is_refused():
    problem = problem_of()
    starts = make_starts(problem, "uniform", count=1, seed=1)
    with pytest.raises(ValueError, match="cannot take gradient steps; use solver='block'"):
        solve_batch(problem, GradientBCD(), starts=starts, stop=Stop(1))
    negative = [-factor[0] for factor in starts]
    with pytest.raises(ValueError, match="init must have no negative entries in mode 0"):
        make_starts(problem, negative, count=1, seed=0)


def test_a_direction_that_was_cut_short_still_descends():
    vector, gradient = torch.tensor([[0.1, 1.0, 1.0]]), torch.tensor([[3.0, -1.0, -1.0]])
    direction = torch.tensor([[-1.0, -1.0, 0.5]])
    face, inner = Face(held=torch.zeros(1, 3, dtype=torch.bool), share=0.9), USUAL
    assert inner.dot(gradient, direction) < 0
    assert inner.dot(gradient, face.towards(vector, direction)) > 0  # the first entry is near zero
    found = face.surely_down(vector, direction, gradient)
    assert inner.dot(gradient, found) < 0
    assert (vector + found >= 0).all()
