import pytest
import torch

from parafair.algebra.cp_tensor import CPTensor
from parafair.solvers.init import make_starts
from parafair.testing import example_rows
from tests.conftest import small_problem

PROBLEM = small_problem()


def test_uniform_is_the_papers():
    starts = make_starts(PROBLEM, "uniform", count=2, seed=0)
    assert [tuple(f.shape) for f in starts] == [(2, 24, 3), (2, 9, 3), (2, 7, 3)]
    assert all((f >= 0).all() and (f <= 1).all() for f in starts)
    assert not torch.equal(starts[0][0], starts[0][1])


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_a_start_does_not_depend_on_how_many_there_are(name):
    few, many = (make_starts(PROBLEM, name, count=c, seed=7) for c in (1, 5))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(few, many, strict=True))


def test_seed_reaches_everything():
    one, two, three = (make_starts(PROBLEM, "normal", count=1, seed=s) for s in (0, 0, 1))
    assert all(map(torch.equal, one, two))
    assert not any(map(torch.equal, one, three))


def test_random_numbers_do_not_depend_on_precision():
    single = make_starts(small_problem(dtype=torch.float32), "uniform", count=1, seed=0)
    double = make_starts(PROBLEM, "uniform", count=1, seed=0)
    assert all(torch.equal(s, d.float()) for s, d in zip(single, double, strict=True))


def test_svd_spans_the_leading_directions():
    vectors = make_starts(PROBLEM, "svd", count=1, seed=0)[1][0]
    expected = torch.linalg.svd(PROBLEM.data.values.movedim(1, 0).flatten(1))[0][:, :3]
    torch.testing.assert_close((vectors.mT @ expected).abs(), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(24, 3, 5), (24, 4)])
def test_svd_is_filled_up_where_a_mode_is_small(shape):
    rank = 4
    starts = make_starts(small_problem(shape=shape, rank=rank), "svd", count=1, seed=0)
    assert all(f.shape[-1] == rank and torch.isfinite(f).all() for f in starts)
    assert all((f.norm(dim=-2) > 0).all() for f in starts)


def test_given_factors_are_copied_and_weights_kept():
    factors = [example_rows(n, 3, seed=n) for n in PROBLEM.shape]
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for form in (factors, CPTensor.from_factors(factors), (None, factors)):
        starts = make_starts(PROBLEM, form, count=1, seed=0)
        assert torch.equal(starts[0][0], factors[0])
        assert starts[0].data_ptr() != factors[0].data_ptr()
    weighted = make_starts(PROBLEM, (weights, factors), count=1, seed=0)
    torch.testing.assert_close(
        CPTensor.from_factors([f[0] for f in weighted]).reconstruct(),
        CPTensor(weights, tuple(factors)).reconstruct(),
    )


@pytest.mark.parametrize(
    ("start", "count", "message"),
    [
        ("unifrom", 1, "init must be one of .*did you mean 'uniform'"),
        ("svd", 2, "n_init=2 needs random starts"),
        ("uniform", 0, "n_init must be a whole number from 1 to 100000, got 0"),
        (
            [torch.ones(24, 3), torch.ones(9, 3), torch.ones(7, 2)],
            1,
            r"init must hold factors of shapes.*\(7, 2\)",
        ),
        (
            [torch.full((n, 3), torch.nan) for n in (24, 9, 7)],
            1,
            "init must have finite entries, but has NaN",
        ),
    ],
)
def test_bad_starts_are_refused(start, count, message):
    with pytest.raises(ValueError, match=message):
        make_starts(PROBLEM, start, count=count, seed=0)
