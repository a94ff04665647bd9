import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from parafair.algebra.nnls import pass_columns, pass_columns_of_rows, solve_non_negative
from parafair.testing import example_rows

RANK, PEOPLE, CELLS = 5, 40, 30


@pytest.fixture(params=["regular", "singular", "nonnegative"])
def design(request):
    """A matrix (cells, rank)."""
    design = example_rows(CELLS, RANK, seed=0)
    if request.param == "singular":
        design[:, 1] = design[:, 0]
    return design.abs() if request.param == "nonnegative" else design


def rows_and_masks():
    """Entries of people, and which of them are observed: some people have few."""
    observed = example_rows(PEOPLE, CELLS, seed=2) > 0.2
    observed[:3] = False
    observed[1, :2] = observed[2, :RANK] = True
    return example_rows(PEOPLE, CELLS, seed=1), observed


def triangles_of(grams):
    first, second = torch.triu_indices(RANK, RANK)
    return grams[:, first, second]


def test_pivoting_finds_the_least_squares_of_scipy_row_by_row(design):
    entries, observed = rows_and_masks()
    weights = observed.double()
    target = (weights * entries) @ design
    grams = torch.einsum("ij,jr,js->irs", weights, design, design)
    found = solve_non_negative(target, triangles_of(grams), torch.zeros_like(target))
    assert (found >= 0).all()
    for row, own, seen in zip(found.numpy(), entries.numpy(), observed.numpy(), strict=True):
        if not seen.any():
            assert not row.any()
            continue
        _, error = nnls(design.numpy()[seen], own[seen])
        # Rounding of the Gram matrix, whose condition is the square of that of the design.
        reached = np.linalg.norm(design.numpy()[seen] @ row - own[seen])
        assert reached == pytest.approx(error, abs=1e-6)


def test_pivoting_keeps_a_start_that_is_the_solution():
    design = example_rows(CELLS, RANK, seed=0)
    truth = example_rows(PEOPLE, RANK, seed=3).clamp_min(0.0)
    gram = design.mT @ design
    grams = triangles_of(gram.expand(PEOPLE, RANK, RANK))
    found = solve_non_negative(truth @ gram, grams, truth)
    torch.testing.assert_close(found, truth, atol=1e-12, rtol=0)


def test_passes_never_increase_the_value_and_end_at_the_solution(design):
    entries, _ = rows_and_masks()
    target, gram = (entries @ design)[None], (design.mT @ design)[None]

    def value(factor):
        return float(((factor @ gram - 2 * target) * factor).sum())

    factor, values = torch.zeros_like(target), [0.0]
    for _ in range(300):
        factor = pass_columns(target, gram, factor, passes=1)
        values.append(value(factor))
        assert (factor >= 0).all()
    assert (np.diff(values) <= 1e-12 * abs(values[-1])).all()
    least = sum(nnls(design.numpy(), own)[1] ** 2 for own in entries.numpy())
    assert values[-1] + float(entries.square().sum()) == pytest.approx(least, rel=1e-6)


def test_rows_with_equal_gram_matrices_pass_as_rows_that_share_one():
    design = example_rows(CELLS, RANK, seed=0)
    entries = torch.stack([rows_and_masks()[0], 2 * rows_and_masks()[0].flip(0)])
    target, gram = entries @ design, (design.mT @ design).expand(2, RANK, RANK)
    start = example_rows(PEOPLE, RANK, seed=4).abs().expand(2, PEOPLE, RANK)
    shared = pass_columns(target, gram, start, passes=3)
    each = gram[:, None].expand(2, PEOPLE, RANK, RANK)
    own = pass_columns_of_rows(target, each, start, passes=3)
    torch.testing.assert_close(own, shared)


def test_a_column_without_curvature_becomes_zero():
    gram = torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))
    target = torch.tensor([[[2.0, 0.0]]], dtype=torch.float64)
    start = torch.ones(1, 1, 2, dtype=torch.float64)
    expected = torch.tensor([[[2.0, 0.0]]], dtype=torch.float64)
    assert torch.equal(pass_columns(target, gram[None], start, passes=1), expected)
    own = pass_columns_of_rows(target, gram[None, None], start, passes=1)
    assert torch.equal(own, expected)
