"""Sums over tiles are the sums over all entries."""

from itertools import pairwise
from math import prod

import pytest
import torch

from parafair.algebra.sparse import SparseObservations
from parafair.algebra.streamed import StreamedObservations, Tile, counting_order, has_few_cells

RANK, BATCH = 3, 2


def entries(shape, count=600, seed=0):
    """Different cells in ascending order, and values."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(prod(shape), (count,), generator=generator).unique()
    indices = torch.stack(torch.unravel_index(places, shape))
    return indices, torch.randn(len(places), generator=generator, dtype=torch.float64)


def streamed(indices, values, shape, bounds):
    def stream():
        for first, last in pairwise(bounds):
            own = (indices[0] >= first) & (indices[0] < last)
            places = indices[:, own].clone()
            places[0] -= first
            yield Tile(places, values[own], (last - first, *shape[1:]), first=first)

    return StreamedObservations(
        shape,
        values[:0],
        len(values),
        float(values @ values),
        stream,
        lambda mode: torch.bincount(indices[mode], minlength=shape[mode]),
        len(values),
    )


# The second shape has too many combinations of the other modes for tables of them.
SHAPES = [(40, 6, 5), (40, 300, 300), (60, 90)]


@pytest.fixture(params=SHAPES, ids=str)
def both(request):
    shape = request.param
    indices, values = entries(shape)
    # People 7 to 9 have no entries, and the tile of person 8 has none at all.
    kept = (indices[0] < 7) | (indices[0] > 9)
    indices, values = indices[:, kept], values[kept]
    tiles = streamed(indices, values, shape, [0, 1, 8, 9, 25, shape[0]])
    generator = torch.Generator().manual_seed(1)
    factors = [torch.randn(BATCH, n, RANK, generator=generator, dtype=torch.float64) for n in shape]
    return SparseObservations(indices, values, shape), tiles, factors


def test_the_shapes_cover_few_and_many_cells():
    assert [has_few_cells(shape) for shape in SHAPES] == [True, False, True]


def test_error_and_slopes_equal_those_in_memory(both):
    memory, tiles, factors = both
    error, slopes = memory.error_and_slopes(factors)
    found, others = tiles.error_and_slopes(factors)
    torch.testing.assert_close(found, error, rtol=1e-12, atol=0)
    torch.testing.assert_close(others, slopes, rtol=1e-12, atol=1e-11)


def test_sums_equal_those_in_memory_after_factors_change(both):
    memory, tiles, factors = both
    sums, found = memory.sums(factors), tiles.sums(factors)
    for replaced in (None, 1, 0):
        if replaced is not None:
            for each in (sums, found):
                each.replace(replaced, 2 * factors[replaced] - 1)
        for mode in range(len(factors)):
            torch.testing.assert_close(
                found.target(mode), sums.target(mode), rtol=1e-12, atol=1e-11
            )
            torch.testing.assert_close(
                found.gram(mode).whole(), sums.gram(mode).whole(), rtol=1e-12, atol=1e-11
            )


def test_gram_matrices_can_be_changed_and_used_several_times(both):
    memory, tiles, factors = both
    more = torch.tensor([[1.0, 2.0, 3.0]] * BATCH, dtype=torch.float64)
    own, found = (each.sums(factors).gram(0).plus(more) for each in (memory, tiles))
    torch.testing.assert_close(found.squares(factors[0]), own.squares(factors[0]))
    member = torch.tensor([1])
    torch.testing.assert_close(
        found.take(member).products(factors[0][:1]), own.take(member).products(factors[0][:1])
    )


def test_residual_equals_that_in_memory(both):
    memory, tiles, factors = both
    one = [factor[0] for factor in factors]
    assert tiles.residual_squared(one) == pytest.approx(memory.residual_squared(one), rel=1e-12)


def test_all_values_at_once_are_an_error(both):
    with pytest.raises(ValueError, match="never in memory as a whole"):
        both[1].values  # noqa: B018


def test_counting_order_is_the_stable_order():
    keys = torch.randint(50, (1000,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(counting_order(keys, 50), torch.argsort(keys, stable=True))
