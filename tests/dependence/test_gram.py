import torch

from parafair.algebra.devices import by_device
from parafair.dependence.gram import (
    TILE_BYTES,
    CenteredGram,
    exact_low_rank_factor,
    kernel_sum,
    tile_size,
)
from parafair.dependence.kernels import Delta, Gaussian, Linear
from parafair.testing import example_groups, example_rows


class TestLowRankFactor:
    def test_is_exact_and_short_for_categories(self):
        groups = torch.tensor([[0.0], [1.0], [2.0]]).double().repeat(10, 1)
        low_rank = exact_low_rank_factor(groups, Gaussian(1.0))
        assert low_rank.shape == (30, 3)
        torch.testing.assert_close(low_rank @ low_rank.mT, Gaussian(1.0)(groups, groups))

    def test_is_exact_to_rounding_for_one_number(self):
        ages = example_rows(500, 1, seed=0)
        low_rank = exact_low_rank_factor(ages, Gaussian(1.0))
        assert low_rank.shape[1] < 40
        torch.testing.assert_close(
            low_rank @ low_rank.mT, Gaussian(1.0)(ages, ages), atol=1e-11, rtol=0
        )

    def test_single_precision_loses_no_more_than_its_own_digits(self):
        ages = example_rows(2000, 1, seed=0).float()
        error = (lambda u: u @ u.mT)(exact_low_rank_factor(ages, Gaussian(1.0))) - Gaussian(1.0)(
            ages, ages
        )
        assert error.abs().max() < 1e-5

    def test_gives_up_where_the_rank_is_high(self):
        assert exact_low_rank_factor(example_rows(200, 8, seed=0), Gaussian(1.0)) is None


def test_weights_are_cached_for_small_samples_only():
    weights = CenteredGram.of(example_groups(10, seed=0), Delta())
    whole = slice(0, 10)
    assert weights.tile(whole, whole) is weights.tile(whole, whole)
    value, _ = kernel_sum(example_rows(10, 2, seed=1), Linear(), weights)
    assert value.shape == ()


def test_a_device_without_sizes_of_its_own_gets_those_of_the_cpu():
    elsewhere, here = torch.empty(9, 3, device="meta"), torch.empty(9, 3)
    assert by_device(TILE_BYTES, elsewhere) == TILE_BYTES["cpu"]
    assert tile_size(elsewhere) == tile_size(here)
    assert by_device({"cpu": 1, "meta": 2}, elsewhere) == 2
