import pytest
import torch

from tests.reference import zeros

MISSING = [(), ((0, 0, 0), (3, 2, 1), (8, 5, 4))]


def factors_of(shape, rank=3, batch=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(batch, n, rank, generator=generator, dtype=torch.float64) for n in shape]


@pytest.mark.parametrize("missing", MISSING)
def test_sums_are_those_of_the_dense_tensor(missing):
    listed, dense = zeros.pair("squared", missing=missing)
    factors = factors_of(listed.shape)
    mine, expected = listed.observations, dense.observations
    for a, b in zip(
        mine.error_and_slopes(factors), expected.error_and_slopes(factors), strict=True
    ):
        for one, two in zip(a, b, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)
    sums, others = mine.sums(factors), expected.sums(factors)
    for mode in range(3):
        torch.testing.assert_close(sums.target(mode), others.target(mode), rtol=0, atol=1e-10)
        own, other = sums.gram(mode), others.gram(mode)
        if missing:
            own, other = own.whole(), other.whole()
        torch.testing.assert_close(own, other, rtol=0, atol=1e-10)
        assert torch.equal(mine.counts(mode), expected.counts(mode))
    one = [factor[0] for factor in factors]
    assert mine.residual_squared(one) == pytest.approx(expected.residual_squared(one), rel=1e-10)
    assert mine.working_memory(3) > 0


def test_sums_follow_a_factor_that_changes():
    listed, dense = zeros.pair("squared")
    factors = factors_of(listed.shape)
    sums, others = listed.observations.sums(factors), dense.observations.sums(factors)
    for each in (sums, others):
        each.replace(1, factors[1] + 1)
    torch.testing.assert_close(sums.target(0), others.target(0))
    torch.testing.assert_close(sums.gram(2), others.gram(2))
