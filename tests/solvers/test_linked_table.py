import pytest
import torch

from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES, is_squared, needs_non_negative
from parafair.solvers import LBFGS, BlockDescent, Stop, solve_batch
from parafair.solvers.deviance import Deviance
from parafair.solvers.linked_table import LinkedTable
from parafair.solvers.problem import Problem
from parafair.solvers.side import Side
from tests.reference import losses as reference
from tests.reference.coupled import linked_error, linked_sum

LINKED = [n for n, loss in LOSSES.items() if not (is_squared(loss) or needs_non_negative(loss))]
# The second derivative of Huber's loss jumps, so the slow minimizer takes seconds.
SLOW = pytest.param("huber", marks=pytest.mark.slow)
SHAPE, RANK, WEIGHT, RIDGE = (16, 4, 3), 2, 2.0, 1.0


def test_the_total_is_the_deviance_of_intercepts_alone():
    table = table_of("poisson", missing=0.0)
    rates = table.mean(0)
    expected = 2 * (torch.xlogy(table, table / rates) - table + rates).sum()
    assert linked("poisson", table).total == pytest.approx(float(expected))


def table_of(name, people=16, missing=0.2, seed=1):
    """Entries that a loss accepts, of people x 5 columns, NaN where missing."""
    return reference.example(name, (people, 5, 1), RANK, missing=missing, seed=seed)[..., 0]


def linked(name, table):
    return LinkedTable(Deviance(LOSSES[name], TensorData(table), None))


def draw(*shapes, seed=0, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    return [size * torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", [SLOW if name == "huber" else name for name in LINKED])
def test_error_factor_and_gradient_are_those_of_a_slow_minimizer(name, missing):
    table = table_of(name, missing=missing)
    own = linked(name, table)
    (rows,) = draw((2, 16, RANK))
    error, slope = own.value_and_slope(rows)
    for member, some in enumerate(rows):
        some = some.clone().requires_grad_()
        expected, factor, intercepts = linked_error(name, table, some, own.share)
        expected.backward()
        torch.testing.assert_close(error[member], expected.detach(), rtol=1e-8, atol=1e-8)
        fixed = own.at(rows)
        torch.testing.assert_close(fixed.factor[member], factor, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(fixed.intercepts[member, :, 0], intercepts, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(2 * slope[member], some.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LINKED)
def test_squares_touch_the_error_and_lie_above_it_if_the_loss_is_monotone(name):
    own = linked(name, table_of(name))
    (rows,) = draw((1, 16, RANK))
    block = own.near(rows).block(entries=1, ridge=None)
    torch.testing.assert_close(block.value(rows), own.value(rows))
    (slope,) = torch.autograd.grad(block.value(rows.requires_grad_()).sum(), rows)
    torch.testing.assert_close(slope, 2 * own.value_and_slope(rows.detach())[1])
    if own.monotone:
        for seed in range(3):
            other = rows.detach() + draw((1, 16, RANK), seed=seed)[0]
            assert (block.value(other) >= own.value(other)).all()


def test_error_does_not_depend_on_the_scale_of_columns():
    own = linked("bernoulli", table_of("bernoulli"))
    (rows,) = draw((1, 16, RANK))
    scaled = rows * torch.tensor([1e-6, 1e3], dtype=torch.float64)
    torch.testing.assert_close(own.value(scaled), own.value(rows))


def test_people_who_are_told_apart_have_a_finite_factor():
    table = (torch.arange(16.0) < 8).double()[:, None]
    own = linked("bernoulli", table)
    rows = (2 * table - 1)[None]
    assert 1 < float(own.factor(rows).abs()) < 10


def problem_of(tensor_loss, side_loss):
    tensor = reference.example(tensor_loss, SHAPE, RANK, missing=0.2, seed=1)
    table = table_of(side_loss)
    side = Side(TensorData(table), WEIGHT, side_loss)
    return Problem(TensorData(tensor), RANK, loss=tensor_loss, side=side, ridge=RIDGE)


def objective_of(problem, factors, factor, intercepts):
    """The objective with a given factor and intercepts of the table, by its formula."""
    tensor, table, side = problem.data.values, problem.side.data.values, problem.side
    loss = reference.loss_of(problem.loss.name, tensor, factors, ridge=RIDGE)
    observed = tensor[~tensor.isnan()]
    saturated = 2 * problem.loss.saturated(observed).sum() / problem.count
    error = linked_sum(side.loss.name, table, factors[0], factor, intercepts, side.share)
    return loss - saturated + WEIGHT * problem.total / side.table.total * error / problem.count


NONE, D = torch.zeros(5, dtype=torch.float64), torch.zeros(5, RANK, dtype=torch.float64)
PAIRS = [("squared", "bernoulli"), ("squared", "poisson"), ("poisson", "squared")]


@pytest.mark.slow
@pytest.mark.parametrize(("tensor_loss", "side_loss"), [*PAIRS, ("bernoulli", "gamma")])
def test_a_slow_joint_minimizer_finds_nothing_lower_from_where_fits_end(tensor_loss, side_loss):
    problem = problem_of(tensor_loss, side_loss)
    starts = tuple(draw(*((2, size, RANK) for size in SHAPE), size=0.3))
    ends = []
    for solver in (BlockDescent(), LBFGS()):
        fits = solve_batch(problem, solver, starts=starts, stop=Stop(max_iter=300, tol=1e-6))
        for fit in fits:
            values = [entry.objective for entry in fit.history]
            assert values == sorted(values, reverse=True)
            fit = fit.with_side(problem)
            intercepts = NONE if fit.side_intercepts is None else fit.side_intercepts
            own = float(objective_of(problem, fit.cp.factors, fit.side, intercepts))
            assert own == pytest.approx(fit.objective, rel=1e-6)
            ends.append((fit, intercepts))
    # The squared error has no intercepts.
    more = [] if problem.side.is_squared else [NONE]

    def value(found):
        return objective_of(problem, found[:3], found[3], found[4] if more else NONE)

    for fit, intercepts in ends:
        begin = [*fit.cp.factors, fit.side, *([intercepts] if more else [])]
        lowest = float(value(reference.minimize(value, [part.contiguous() for part in begin])))
        assert fit.objective <= lowest * (1 + 1e-3)


@pytest.mark.parametrize(("tensor_loss", "side_loss"), PAIRS)
def test_gradients_are_those_of_autograd(tensor_loss, side_loss):
    problem = problem_of(tensor_loss, side_loss)
    starts = tuple(draw(*((1, size, RANK) for size in SHAPE), size=0.3))
    objective, gradients, _ = problem.value_and_gradients(starts)
    fixed = problem.side.at(starts[0])
    intercepts = NONE if fixed.intercepts is None else fixed.intercepts[0, :, 0]
    own = [start[0].clone().requires_grad_() for start in starts]
    value = objective_of(problem, own, fixed.factor[0], intercepts)
    value.backward()
    torch.testing.assert_close(objective.value[0], value.detach())
    torch.testing.assert_close(problem.evaluate(starts).value, objective.value)
    for gradient, part in zip(gradients, own, strict=True):
        torch.testing.assert_close(gradient[0], part.grad, rtol=1e-5, atol=1e-6)


def test_wrong_losses_and_values_are_refused():
    with pytest.raises(ValueError, match="side has -1 at .* 2, .* 1.*side_loss='poisson' is for"):
        table = torch.ones(4, 2)
        table[2, 1] = -1
        Side(TensorData(table), loss="poisson")
    with pytest.raises(ValueError, match="use side_loss='gamma'"):
        Side(TensorData(torch.full((4, 2), 0.5)), loss="poisson")
    with pytest.raises(ValueError, match="side_loss='poisson-identity' has non-negative factors"):
        Side(TensorData(torch.ones(4, 2)), loss="poisson-identity")
    with pytest.raises(ValueError, match="side_loss must be one of"):
        Side(TensorData(torch.ones(4, 2)), loss="cauchy")
