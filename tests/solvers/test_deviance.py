from itertools import pairwise

import pytest
import torch

from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES, Poisson, needs_non_negative
from parafair.solvers import LBFGS, BlockDescent, Stop, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.problem import Problem
from tests.reference import losses as reference

NAMES = [name for name in LOSSES if name != "squared"]
# Losses of non-negative factors, and all others.
NON_NEGATIVE = [name for name in NAMES if needs_non_negative(LOSSES[name])]
SIGNED = [name for name in NAMES if name not in NON_NEGATIVE]
KINDS = ("complete", "masked", "sparse")


def problem_of(name, kind, *, ridge=0.3, center=True, seed=0):
    tensor = reference.example(name, missing=0.0 if kind == "complete" else 0.3, seed=seed)
    data = TensorData.from_array(tensor)
    data = data.to_sparse() if kind == "sparse" else data
    if name in NON_NEGATIVE:
        return tensor, Problem(data, 2, ridge=ridge, loss=name, non_negative=(0, 1, 2))
    intercepts = Offsets.fit(data, 0, LOSSES[name]) if center else None
    return tensor, Problem(data, 2, ridge=ridge, loss=LOSSES[name], offsets=intercepts)


def batch_of(problem, count=2):
    less = 0.0 if problem.non_negative else 0.5
    return tuple(f - less for f in make_starts(problem, "uniform", count=count, seed=1))


def offsets_of(problem, tensor):
    return 0.0 if problem.offsets is None else problem.offsets.dense(tensor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradients_are_those_of_the_formula(name, kind):
    tensor, problem = problem_of(name, kind)
    factors = batch_of(problem)
    objective, gradients, _ = problem.value_and_gradients(factors)
    offsets = offsets_of(problem, tensor)
    constant = 2 * problem.deviance.saturated / problem.count
    for member in range(2):
        own = [factor[member].clone().requires_grad_() for factor in factors]
        value = reference.loss_of(name, tensor, own, offsets, ridge=0.3)
        torch.testing.assert_close(objective.value[member], value.detach() - constant)
        for mine, theirs in zip(gradients, torch.autograd.grad(value, own), strict=True):
            torch.testing.assert_close(mine[member], theirs)
    torch.testing.assert_close(problem.evaluate(factors).value, objective.value)


@pytest.mark.parametrize("name", NAMES)
def test_the_residual_is_one_for_the_best_constant(name):
    _, problem = problem_of(name, "masked", center=False)
    values = problem.data.entries
    model = torch.full_like(values, problem.loss.constant(values))
    value = problem.loss.value_and_slope(values, model)[0].sum()
    torch.testing.assert_close(float(problem.deviance.of_sum(value)), problem.total)


@pytest.mark.parametrize("solver", [BlockDescent(), LBFGS()])
@pytest.mark.parametrize("name", SIGNED)
def test_no_slow_minimizer_gets_below_a_fit(name, solver):
    tensor, problem = problem_of(name, "masked")
    (fit,) = solve_batch(problem, solver, starts=batch_of(problem, 1), stop=Stop(500, 1e-7))
    values = [entry.objective for entry in fit.history]
    assert all(after <= before for before, after in pairwise(values))
    offsets = problem.offsets.dense(tensor)

    def objective(factors):
        return reference.loss_of(name, tensor, factors, offsets, ridge=0.3)

    constant = 2 * problem.deviance.saturated / problem.count
    best = objective(reference.minimize(objective, fit.cp.factors, 50))
    assert fit.objective <= float(best) - constant + 1e-4


@pytest.mark.parametrize("solver", [BlockDescent(), LBFGS()])
@pytest.mark.parametrize("name", NON_NEGATIVE)
def test_non_negative_fits_are_stationary_and_never_rise(name, solver):
    _, problem = problem_of(name, "masked")
    (fit,) = solve_batch(problem, solver, starts=batch_of(problem, 1), stop=Stop(2000, 1e-9))
    values = [entry.objective for entry in fit.history]
    assert all(after <= before for before, after in pairwise(values))
    factors = [factor[None] for factor in fit.cp.factors]
    gradients = problem.value_and_gradients(factors)[1]
    for factor, gradient in zip(factors, gradients, strict=True):
        assert (factor >= 0).all()
        # The conditions of Karush, Kuhn and Tucker; the objective is about 1.
        assert torch.minimum(factor, gradient).abs().max() < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_that_hides_nothing_changes_nothing(name):
    _, problem = problem_of(name, "complete", center=False)
    modes = problem.non_negative
    listed = Problem(problem.data.to_sparse(), 2, ridge=0.3, loss=name, non_negative=modes)
    starts = batch_of(problem)
    for solver in (BlockDescent(), LBFGS()):
        found = [solve_batch(p, solver, starts=starts, stop=Stop(5, 0)) for p in (problem, listed)]
        if LOSSES[name].bound is None or isinstance(solver, LBFGS):
            # With a bound on the weights, blocks of complete data have other steps.
            for mine, other in zip(*found, strict=True):
                assert mine.objective == pytest.approx(other.objective, rel=1e-7)
    assert float(problem.evaluate(starts).value[0]) == pytest.approx(
        float(listed.evaluate(starts).value[0])
    )


def test_members_of_a_batch_do_not_mix():
    _, problem = problem_of("poisson", "masked")
    starts = batch_of(problem, 3)
    for solver in (BlockDescent(), LBFGS()):
        together = solve_batch(problem, solver, starts=starts, stop=Stop(5, 0))
        for member, fit in enumerate(together):
            alone = tuple(factor[member : member + 1] for factor in starts)
            (own,) = solve_batch(problem, solver, starts=alone, stop=Stop(5, 0))
            assert fit.objective == pytest.approx(own.objective, rel=1e-8)


def test_a_slice_of_zeros_and_huge_factors_end_finite():
    tensor = reference.example("poisson")
    tensor[0], tensor[:, 1] = 0, 0
    problem = Problem(TensorData.from_array(tensor), 2, loss=Poisson())
    starts = tuple(100 * factor for factor in make_starts(problem, "uniform", count=1, seed=0))
    for solver in (BlockDescent(), LBFGS()):
        (fit,) = solve_batch(problem, solver, starts=starts, stop=Stop(50, 0))
        assert fit.objective < problem.total / problem.count
        assert all(torch.isfinite(factor).all() for factor in fit.cp.factors)


def test_data_without_differences_is_refused():
    ones = TensorData.from_array(torch.ones(3, 4, 2))
    with pytest.raises(ValueError, match="X has the same value everywhere"):
        Problem(ones, 1, loss="bernoulli")
