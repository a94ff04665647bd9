import torch

from parafair.algebra.quadratic import QuadraticForm
from parafair.testing import example_rows


def test_form_equals_its_matrix():
    columns, factor = example_rows(8, 3, seed=0), example_rows(8, 2, seed=1)
    form = QuadraticForm.from_columns(columns, ridge=0.5)
    matrix = columns @ columns.mT + 0.5 * torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(form.apply(factor), matrix @ factor)
    torch.testing.assert_close(form.value(factor), torch.trace(factor.mT @ matrix @ factor))
    torch.testing.assert_close(form.largest, torch.linalg.eigvalsh(matrix).max())


def test_dependent_columns_are_dropped():
    column = example_rows(8, 1, seed=0)
    form = QuadraticForm.from_columns(torch.cat([column, 2 * column], 1))
    assert form.directions.shape == (8, 1)


def test_zero_columns_give_the_zero_form():
    form = QuadraticForm.from_columns(torch.zeros(8, 2, dtype=torch.float64))
    assert form.largest == 0
    assert form.value(example_rows(8, 2, seed=0)) == 0
