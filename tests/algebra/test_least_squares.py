import pytest
import torch

from parafair.algebra.least_squares.shared import geometric
from parafair.algebra.quadratic import QuadraticForm
from parafair.solvers.sweep import Sweep
from parafair.testing import example_rows
from tests.conftest import dense_of, small_problem
from tests.reference import paper_bcd

FORMS = {
    "none": lambda n: QuadraticForm.zero(torch.zeros(n, 1, dtype=torch.float64)),
    "thin": lambda n: QuadraticForm.from_columns(example_rows(n, 2, seed=5)),
    "thin and ridge": lambda n: QuadraticForm.from_columns(example_rows(n, 2, seed=5), 0.3),
}


@pytest.fixture(params=["complete", "masked", "sparse", "complete and ridge", "sparse and ridge"])
def problem(request):
    storage, _, ridge = request.param.partition(" and ")
    return small_problem(storage=storage, ridge=0.5 if ridge else 0.0)


@pytest.fixture(params=[0, 1, 2])
def block_and_loss(request, problem):
    """The fast block, its factor, and the loss and the ridge by reconstruction."""
    mode = request.param
    factors = [example_rows(n, problem.rank, seed=n)[None] for n in problem.shape]
    dense = dense_of(problem)

    def loss(factor):
        changed = [f[0] for f in factors]
        changed[mode] = factor
        value = paper_bcd.objective(dense, changed, None)
        return value + paper_bcd.ridge_penalty(changed, problem.ridge, 0) / problem.count

    return Sweep(problem, factors).block(mode), factors[mode], loss


@pytest.fixture(params=FORMS)
def form(request, block_and_loss):
    return FORMS[request.param](block_and_loss[1].shape[1])


def gradient_of(loss, form, factor):
    factor = factor.clone().requires_grad_()
    matrix = form.directions @ torch.diag(form.values) @ form.directions.mT
    matrix = matrix + form.ridge * torch.eye(len(matrix), dtype=matrix.dtype)
    value = loss(factor) + torch.trace(factor.mT @ matrix @ factor)
    return torch.autograd.grad(value, factor)[0]


def test_value_and_step_equal_those_of_the_reconstruction(block_and_loss):
    block, factor, loss = block_and_loss
    torch.testing.assert_close(block.value(factor)[0], loss(factor[0]))
    zero = QuadraticForm.zero(factor)
    stepped = block.affine_step(torch.full((1, 1, 1), 0.1, dtype=torch.float64))(factor[0])
    torch.testing.assert_close(stepped, factor[0] - 0.1 * gradient_of(loss, zero, factor[0]))


def test_minimizer_has_zero_gradient(block_and_loss, form):
    block, factor, loss = block_and_loss
    minimizer = block.minimizer(form)[0]
    slope = gradient_of(loss, form, minimizer)
    assert slope.abs().max() < 1e-10 * gradient_of(loss, form, factor[0]).abs().max()


def test_closed_form_steps_equal_single_steps(block_and_loss, form):
    block, factor, loss = block_and_loss
    step = 0.9 / block.curvature(form)
    slow = factor[0]
    for _ in range(17):
        slow = slow - step * gradient_of(loss, form, slow)
    fast = block.descend(factor, form, step=step, count=17)[0]
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-12)


def test_curvature_is_the_largest_eigenvalue_of_the_hessian(block_and_loss, form):
    block, factor, loss = block_and_loss
    top, n = example_rows(factor.shape[1], factor.shape[2], seed=9), factor[0]
    base = gradient_of(loss, form, n)
    for _ in range(300):  # power iteration with Hessian-vector products
        top = top / top.norm()
        top = gradient_of(loss, form, n + top) - base
    assert float(block.curvature(form)) >= float(top.norm()) * (1 - 1e-6)
    if len(form.values) == 0:
        assert float(block.curvature(form)) == pytest.approx(float(top.norm()), rel=1e-3)


def test_proximal_step_has_zero_gradient(block_and_loss):
    block, factor, loss = block_and_loss
    slope = example_rows(*factor.shape[1:], seed=8)[None]
    weight = torch.tensor([0.2], dtype=torch.float64)
    best = block.proximal(factor, slope, weight)
    zero = QuadraticForm.zero(factor)
    total = gradient_of(loss, zero, best[0]) + slope[0] + 0.2 * (best - factor)[0]
    assert total.abs().max() < 1e-10


def test_column_passes_keep_norms_and_never_increase_the_loss(block_and_loss):
    block, factor, _ = block_and_loss
    norms, before = factor.norm(dim=1), block.value(factor)
    for _ in range(5):
        factor = block.minimize_columns(factor)
        after = block.value(factor)
        assert after <= before + 1e-12
        before = after
    torch.testing.assert_close(factor.norm(dim=1), norms)


@pytest.mark.parametrize("ratio", [0.0, 0.5, -0.7, 1.0, 1 - 1e-12, 1.3])
@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_geometric_sums(ratio, count):
    power, total = geometric(torch.tensor(ratio, dtype=torch.float64), count)
    assert float(power) == pytest.approx(ratio**count)
    assert float(total) == pytest.approx(sum(ratio**k for k in range(count)))


def test_improve_is_nearly_the_minimizer_and_no_ascent(block_and_loss):
    block, factor, loss = block_and_loss
    exact = block.minimizer(QuadraticForm.zero(factor))
    improved = block.improve(factor)
    least, found, before = (float(loss(f[0])) for f in (exact, improved, factor))
    assert least <= found <= before
    assert found - least < 1e-3 * (before - least)


def test_improve_holds_on_where_columns_are_dependent():
    problem = small_problem()
    factors = [example_rows(n, problem.rank, seed=n)[None] for n in problem.shape]
    for factor in factors[1:]:
        factor[..., 1] = factor[..., 0] * (1 + 1e-9)
    sweep = Sweep(problem, factors)
    improved = sweep.block(0).improve(factors[0])
    assert improved.abs().max() < 100 * factors[0].abs().max()
    assert float(sweep.block(0).value(improved)) <= float(sweep.block(0).value(factors[0]))


def test_best_mean_is_that_of_least_squares(block_and_loss):
    block, factor, loss = block_and_loss
    mean = factor.mean(-2, keepdim=True)
    shifted = (factor - mean + block.best_mean(factor))[0]
    slope = gradient_of(loss, QuadraticForm.zero(factor), shifted).mean(0)
    before = gradient_of(loss, QuadraticForm.zero(factor), factor[0]).mean(0)
    assert float(slope.norm()) < 0.05 * float(before.norm())


def test_a_pooled_row_has_the_loss_of_the_rows_that_it_replaces(block_and_loss):
    block, factor, loss = block_and_loss
    n = factor.shape[1]
    # Row i is the common row of i and its mirror image; each row is in two pairs, with weights
    # that sum to one.
    pairs = torch.stack([torch.arange(n), torch.arange(n).flip(0)], 1)
    pooled = block.pool(pairs, torch.tensor([0.25, 0.75]).double())
    symmetric = factor + factor.flip(1)
    torch.testing.assert_close(pooled.value(symmetric)[0], loss(symmetric[0]))
    alone = block.pool(torch.arange(n)[:, None], torch.ones(1).double())
    torch.testing.assert_close(alone.value(factor)[0], loss(factor[0]))


def test_the_best_pooled_row_is_the_best_of_all_common_rows(block_and_loss):
    block, factor, loss = block_and_loss
    n = factor.shape[1]
    zero = QuadraticForm.zero(factor)
    everybody = block.pool(torch.arange(n)[None], torch.ones(n).double())
    best = everybody.minimizer(QuadraticForm.zero(everybody.target)).expand_as(factor)
    gradient = gradient_of(loss, zero, best[0])
    torch.testing.assert_close(gradient.sum(0), torch.zeros_like(gradient[0]), atol=1e-8, rtol=0)
