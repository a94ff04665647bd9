import pytest
import torch

from parafair.solvers.ridge import ridge_diagonal
from parafair.solvers.rows import minimize_rows
from tests.reference import losses as reference
from tests.solvers.test_deviance import KINDS, NON_NEGATIVE, SIGNED, batch_of, problem_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SIGNED)
def test_rows_are_those_of_a_slow_minimizer(name, kind):
    tensor, problem = problem_of(name, kind, ridge=1.0)
    factors = [factor[:1] for factor in batch_of(problem)]
    ridge = ridge_diagonal(factors, 0, 0, 1.0)
    rows = minimize_rows(problem.deviance, factors, 0, ridge=ridge)[0]
    offsets, others = problem.offsets.dense(tensor), [factor[0] for factor in factors[1:]]
    (expected,) = reference.minimize(
        lambda found: reference.loss_of(name, tensor, [*found, *others], offsets, ridge=1.0),
        [torch.zeros_like(rows)],
    )
    torch.testing.assert_close(rows, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NON_NEGATIVE)
def test_non_negative_rows_are_stationary(name, kind):
    _, problem = problem_of(name, kind, ridge=0.0)
    factors = [factor[:1] for factor in batch_of(problem)]
    rows = minimize_rows(problem.deviance, factors, 0, ridge=None, non_negative=True)
    assert (rows >= 0).all()
    # The conditions of Karush, Kuhn and Tucker, for the sum over the entries of a row.
    slope = problem.deviance.value_and_slopes([rows, *factors[1:]])[1][0]
    assert torch.minimum(rows, slope).abs().max() < 1e-3


def test_rows_of_another_mode_and_rows_without_entries():
    tensor, problem = problem_of("poisson", "masked", ridge=1.0, center=False)
    factors = [factor[:1] for factor in batch_of(problem)]
    zero = [factors[0], torch.zeros_like(factors[1]), factors[2]]
    rows = minimize_rows(problem.deviance, zero, 1, ridge=None)[0]
    (expected,) = reference.minimize(
        lambda found: reference.loss_of("poisson", tensor, [factors[0][0], *found, factors[2][0]]),
        [torch.zeros_like(rows)],
    )
    torch.testing.assert_close(rows, expected, rtol=1e-3, atol=1e-4)
