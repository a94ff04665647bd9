import pytest
import torch

from parafair.dependence.scales import (
    COLUMN_GAMMAS,
    LIMIT,
    Level,
    column_levels,
    compress,
    compression_slope,
    pair_levels,
    robust_levels,
    row_levels,
    spectrum,
)
from parafair.testing import example_rows


def test_compressed_columns_keep_their_order_and_have_a_limit():
    column = torch.linspace(-1e6, 1e6, 1001, dtype=torch.float64)
    places = compress(column)
    assert (places.diff() > 0).all()
    assert float(places.abs().max()) <= LIMIT
    small = torch.tensor(1e-4, dtype=torch.float64)
    assert float(compress(small)) == pytest.approx(1e-4)


def test_slope_of_the_compression_is_its_derivative():
    column = example_rows(20, 1, seed=0).requires_grad_()
    (slope,) = torch.autograd.grad(compress(column).sum(), column)
    torch.testing.assert_close(compression_slope(column.detach()), slope)


def test_waves_are_gaussian_kernels_that_repeat_themselves():
    frequencies, weights = spectrum(COLUMN_GAMMAS)
    distance = torch.linspace(0, 2 * LIMIT, 200, dtype=torch.float64)
    for gamma, own in zip(COLUMN_GAMMAS, weights, strict=True):
        found = torch.cos(distance[:, None] * frequencies) @ own
        exact = sum(torch.exp(-gamma * (distance - 6.0 * k).square()) for k in range(-2, 3))
        # The truncated tail of the spectrum: beyond 3 standard deviations.
        torch.testing.assert_close(found, exact / exact[0], rtol=0, atol=4e-3)
        assert float(found[0]) == pytest.approx(1)


def test_level_is_the_spread_over_permutations():
    # Groups of unequal sizes, so that the part for single people counts too.
    rows = example_rows(60, 1, seed=0)
    gram = torch.exp(-(rows - rows.T).square())
    level = Level.of(gram)
    groups = (torch.arange(60) < 12).double()
    weights = torch.outer(groups - 0.2, groups - 0.2)
    off = ~torch.eye(60, dtype=torch.bool)
    weights = torch.where(off, weights - weights[off].mean(), 0.0)
    weights = weights / weights.square().sum().sqrt()
    generator = torch.Generator().manual_seed(0)
    values = []
    for _ in range(4000):
        order = torch.randperm(60, generator=generator)
        values.append(float((weights[order][:, order] * gram).sum()))
    share = weights.sum(1).square().sum() / 58**2
    variance = 2 * (1 - 2 * 58 * share) * level.pairs + 4 * 59 * 60 * share * level.people
    assert torch.tensor(values).mean() == pytest.approx(0, abs=0.05)
    assert torch.tensor(values).std() == pytest.approx(float(variance) ** 0.5, rel=0.05)


def test_finer_kernels_have_fewer_neighbors():
    for levels in (row_levels(8), robust_levels(8), column_levels(), pair_levels()):
        means = [level.mean for level in levels]
        assert sorted(means, reverse=True) == means
        assert all(level.pairs > 0 for level in levels)
