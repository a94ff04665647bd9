import pytest
import torch

from parafair.solvers.objective import Objective
from parafair.solvers.wolfe import Point, search


def points(function):
    """Evaluate a function of vectors, member by member of a batch."""

    def evaluate(members, vectors):
        vectors = vectors.detach().requires_grad_()
        value = function(members, vectors)
        (gradient,) = torch.autograd.grad(value.sum(), (vectors,))
        value = value.detach()
        zero = torch.zeros_like(value)
        return Point(vectors.detach(), Objective(value, zero, zero, zero), gradient, {})

    return evaluate


def found_from(function, begin):
    evaluate = points(function)
    start = torch.tensor(begin, dtype=torch.float64)[:, None]
    point = evaluate(torch.arange(len(start)), start)
    return point, search(evaluate, point, -point.gradient)


def test_a_good_first_step_is_taken_at_once():
    _, found = found_from(lambda members, x: x.square().sum(-1) / 2, [3.0])
    assert found.point.vector.item() == 0
    assert found.trials.tolist() == [1]


def test_members_have_steps_of_their_own():
    curvature = torch.tensor([0.5, 1.0, 300.0], dtype=torch.float64)

    def function(members, x):
        return curvature[members] * x.square().sum(-1) / 2

    start, found = found_from(function, [1.0, 1.0, 1.0])
    assert found.moved.all()
    assert found.trials.tolist()[1] == 1
    assert found.trials.tolist()[2] > 1
    assert (found.point.objective.value < start.objective.value).all()
    for member in range(3):

        def alone(members, x, member=member):
            return curvature[member] * x.square().sum(-1) / 2

        _, single = found_from(alone, [1.0])
        assert single.point.vector.item() == found.point.vector[member].item()


@pytest.mark.parametrize("outside", [torch.nan, torch.inf])
def test_an_objective_that_is_not_finite_shortens_the_step(outside):
    def function(members, x):
        barrier = torch.where(x.detach().abs().amax(-1) > 2, outside, 0.0)
        return 50 * x.square().sum(-1) + barrier

    start, found = found_from(function, [1.0])
    assert found.moved.all()
    assert found.point.objective.value < start.objective.value
    assert found.trials.item() > 1


def test_a_step_with_a_steep_slope_after_it_is_lengthened():
    start, found = found_from(lambda members, x: 1e-3 * x.square().sum(-1) / 2, [1.0])
    assert found.trials.item() > 1
    assert (start.vector - found.point.vector).item() > 2e-3


def test_a_direction_that_does_not_descend_moves_nothing():
    evaluate = points(lambda members, x: x.square().sum(-1))
    start = evaluate(torch.arange(2), torch.ones(2, 1, dtype=torch.float64))
    direction = torch.tensor([[1.0], [torch.nan]], dtype=torch.float64)
    found = search(evaluate, start, direction)
    assert not found.moved.any()
    assert not found.trials.any()
    assert torch.equal(found.point.vector, start.vector)
