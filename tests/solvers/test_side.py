from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import HSIC, Invariant
from parafair.solvers import LBFGS, BlockDescent, GradientBCD, Stop, solve_batch
from parafair.solvers.problem import Problem
from parafair.solvers.sampling import carry_over, take_sample
from parafair.solvers.side import Side
from tests.reference.coupled import table_error

SHAPE, RANK, WEIGHT = (30, 5, 4), 3, 2.0
GROUPS = SensitiveFeatures.of(["a", "b", "a"] * 10)


def make(missing, *, weight=WEIGHT, **more):
    random = torch.Generator().manual_seed(0)
    parts = [torch.randn(n, RANK, generator=random, dtype=torch.float64) for n in (*SHAPE, 6)]
    tensor = torch.einsum("ir,jr,kr->ijk", *parts[:3])
    tensor += 0.1 * torch.randn(SHAPE, generator=random, dtype=torch.float64)
    table = parts[0] @ parts[3].T
    table += 0.1 * torch.randn(table.shape, generator=random, dtype=torch.float64)
    if missing:
        tensor[torch.rand(SHAPE, generator=random) < 0.5] = torch.nan
        table[torch.rand(table.shape, generator=random) < 0.2] = torch.nan
        tensor[7] = torch.nan
    problem = Problem(
        TensorData(tensor), RANK, side=Side(TensorData(table), weight), ridge=0.1, **more
    )
    starts = tuple(torch.randn(2, n, RANK, generator=random, dtype=torch.float64) for n in SHAPE)
    return problem, starts


@pytest.mark.parametrize("missing", [False, True])
def test_objective_and_gradients_equal_those_of_autograd(missing):
    problem, starts = make(missing)
    objective, gradients, _ = problem.value_and_gradients(starts)
    tensor, table = problem.data.values, problem.side.data.values
    norm, count = tensor.square().nansum(), problem.count
    for member in range(2):
        own = [start[member].clone().requires_grad_() for start in starts]
        error = (torch.einsum("ir,jr,kr->ijk", *own) - tensor)[~tensor.isnan()].square().sum()
        sizes = torch.stack([factor.square().mean(0) for factor in own]).prod(0).sum()
        side = WEIGHT * norm / table.square().nansum() * table_error(table, own[0])
        value = (error + 0.1 * SHAPE[0] * sizes + side) / count
        value.backward()
        torch.testing.assert_close(objective.value[member], value.detach())
        torch.testing.assert_close(objective.side[member], (side / count).detach())
        torch.testing.assert_close(objective.residual[member] ** 2, (error / norm).detach())
        for gradient, factor in zip(gradients, own, strict=True):
            torch.testing.assert_close(gradient[member], factor.grad)
    torch.testing.assert_close(problem.evaluate(starts).value, objective.value)


@pytest.mark.parametrize("missing", [False, True])
def test_solvers_descend_and_agree(missing):
    problem, starts = make(missing)
    ends = []
    for solver in (BlockDescent(), LBFGS()):
        for fit in solve_batch(problem, solver, starts=starts, stop=Stop(tol=1e-9)):
            values = [entry.objective for entry in fit.history]
            assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))
            judged = problem.evaluate([factor[None] for factor in fit.cp.factors])
            assert float(judged.value) == pytest.approx(fit.objective)
            ends.append(fit.objective)
    assert ends == pytest.approx([min(ends)] * 4, rel=1e-5)


def test_at_weight_zero_the_table_has_no_effect():
    problem, starts = make(True, weight=0.0)
    alone = replace(problem, side=None)
    with_table, without = (
        solve_batch(own, BlockDescent(), starts=starts, stop=Stop(max_iter=5))
        for own in (problem, alone)
    )
    for one, other in zip(with_table, without, strict=True):
        assert one.objective == other.objective
        assert all(map(torch.equal, one.cp.factors, other.cp.factors))
    assert with_table[0].with_side(problem).side_residual > 0.01


def test_people_of_the_table_alone_are_not_empty():
    problem, _ = make(True)
    assert len(problem.empty[0]) == 0
    assert replace(problem, side=None).empty[0].tolist() == [7]


def test_a_fit_to_some_people_has_their_rows_of_the_table():
    problem, starts = make(False, penalty=Invariant(strength=1.0), sensitive=GROUPS)
    places = np.array([4, 2, 9])
    few = problem.of_people(places, GROUPS.take(places))
    assert torch.equal(few.side.data.values, problem.side.data.values[places])
    sample, few = take_sample(problem, 1200)
    (fit,) = solve_batch(few, LBFGS(), starts=tuple(s[:1] for s in starts), stop=Stop(max_iter=3))
    carried = carry_over(problem, fit, sample, few.penalized_features)
    assert carried.cp.shape == SHAPE


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"penalty": HSIC(strength=1.0), "sensitive": GROUPS}, "needs a scale-free penalty"),
    ],
)
def test_what_a_table_does_not_go_with_is_refused(more, match):
    with pytest.raises(ValueError, match=match):
        make(False, **more)


def test_wrong_tables_are_refused():
    problem, starts = make(False)
    with pytest.raises(ValueError, match="has 29 rows but mode 0 of the tensor has 30"):
        replace(problem, side=Side(TensorData(torch.ones(29, 2))))
    with pytest.raises(ValueError, match="no entry other than zero"):
        replace(problem, side=Side(TensorData(torch.zeros(30, 2))))
    with pytest.raises(ValueError, match="must be people x columns"):
        Side(TensorData(torch.ones(30, 2, 2)))
    with pytest.raises(ValueError, match="weight must be"):
        Side(TensorData(torch.ones(30, 2)), -1.0)
    with pytest.raises(ValueError, match="has no side information"):
        GradientBCD().init(problem, starts)
