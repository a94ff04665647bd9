import pytest
import torch

from parafair.algebra.coupled import SquaredTable
from parafair.algebra.least_squares import squared_block
from parafair.algebra.observed import observe
from tests.reference.coupled import table_error


def draw(missing, seed=0):
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(20, 5, generator=generator, dtype=torch.float64)
    if missing:
        table[torch.rand(20, 5, generator=generator) < 0.3] = torch.nan
        table[3] = torch.nan
    return table, torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)


def of(table, listed=False):
    if not listed:
        return SquaredTable(observe(table, None, tuple(table.shape)))
    cells = (~table.isnan()).nonzero().T.contiguous()
    return SquaredTable(observe(table[tuple(cells)], cells, tuple(table.shape)))


@pytest.mark.parametrize("missing", [False, True])
def test_error_and_gradient_equal_those_of_autograd(missing):
    table, rows = draw(missing)
    error, slope = of(table).value_and_slope(rows)
    for member, own in enumerate(rows):
        own = own.clone().requires_grad_()
        expected = table_error(table, own)
        expected.backward()
        torch.testing.assert_close(error[member], expected.detach())
        torch.testing.assert_close(2 * slope[member], own.grad)


def test_a_list_of_entries_gives_the_same_as_a_dense_table():
    table, rows = draw(missing=True)
    for dense, listed in zip(
        of(table).value_and_slope(rows), of(table, listed=True).value_and_slope(rows), strict=True
    ):
        torch.testing.assert_close(dense, listed)


def test_error_does_not_depend_on_the_scale_of_columns():
    table, rows = draw(missing=True)
    scaled = rows * torch.tensor([1e-9, 1.0, 1e6], dtype=torch.float64)
    torch.testing.assert_close(of(table).value(scaled), of(table).value(rows))


@pytest.mark.parametrize("missing", [False, True])
def test_with_its_factor_fixed_the_error_touches_and_lies_above(missing):
    table, rows = draw(missing)
    term = of(table)
    target, gram = term.sums(rows, term.factor(rows))
    block = squared_block(target, gram, norm_squared=term.norm_squared, entries=1, ridge=None)
    torch.testing.assert_close(block.value(rows), term.value(rows))
    for seed in range(5):
        other = rows + draw(missing=False, seed=seed)[1]
        assert (block.value(other) >= term.value(other)).all()


def test_dependent_columns_have_a_finite_factor():
    table, rows = draw(missing=False)
    rows[..., 1] = rows[..., 0] * (1 + 1e-12)
    rows[..., 2] = 0.0
    factor = of(table).factor(rows)
    assert factor.abs().max() < 100
