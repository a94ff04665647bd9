import numpy as np
import pytest
import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.guarantees.releases import Release, as_noise

GROUPS = SensitiveFeatures.of(["f", "m"] * 10)
ROWS = torch.from_numpy(np.random.default_rng(0).standard_normal((20, 3)))
NOISE = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 3)))


def squares(rows):
    return torch.cdist(rows, rows).square()


def test_distances_are_those_in_units_of_the_noise():
    z = Release(ROWS, NOISE, GROUPS).in_units_of_noise()
    inverse = torch.linalg.inv(NOISE.mT @ NOISE)
    differences = ROWS[:, None] - ROWS
    expected = torch.einsum("ijr,rs,ijs->ij", differences, inverse, differences)
    torch.testing.assert_close(squares(z), expected)


def test_repeated_releases_divide_the_noise():
    once = Release(ROWS, NOISE, GROUPS).in_units_of_noise(4)
    less = Release(ROWS, NOISE / 2, GROUPS).in_units_of_noise()
    torch.testing.assert_close(squares(once), squares(less))


@pytest.mark.parametrize("scales", [(1e-9, 1.0, 1e9), (1e150, 1.0, 1.0)])
def test_units_of_columns_do_not_matter(scales):
    scale = torch.tensor(scales, dtype=torch.float64)
    z = Release(ROWS * scale, NOISE * scale, GROUPS).in_units_of_noise()
    expected = Release(ROWS, NOISE, GROUPS).in_units_of_noise()
    torch.testing.assert_close(squares(z), squares(expected))


def test_constant_columns_need_no_noise():
    rows = torch.cat([ROWS, torch.ones(20, 1).double()], 1)
    noise = torch.zeros(4, 4).double()
    noise[:3, :3] = NOISE
    z = Release(rows, noise, GROUPS).in_units_of_noise()
    torch.testing.assert_close(
        squares(z), squares(Release(ROWS, NOISE, GROUPS).in_units_of_noise())
    )


def test_equal_columns_with_equal_noise_count_once():
    rows, noise = ROWS[:, [0, 0]], torch.ones(1, 2).double().expand(2, 2) / 2**0.5
    z = Release(rows, noise, GROUPS).in_units_of_noise()
    torch.testing.assert_close(squares(z), squares(ROWS[:, :1]))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (
            torch.diag(torch.tensor([1.0, 0, 1])),
            "noise is zero in column 1, in which the rows differ",
        ),
        (torch.ones(3, 3), "noise is zero in a combination of columns, in which the rows differ"),
        (1e-16 * torch.eye(3), "noise underflows: in some direction it is not larger than"),
    ],
)
def test_directions_without_noise_are_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        Release(ROWS, noise.double(), GROUPS).in_units_of_noise()


def test_noise_too_small_for_single_precision_is_refused():
    noise = 1e-6 * torch.eye(3).double()
    Release(ROWS, noise, GROUPS).in_units_of_noise()
    with pytest.raises(ValueError, match="rounding error of rows in float32, so what is released"):
        Release(ROWS.float(), noise, GROUPS).in_units_of_noise()


def test_rows_must_be_finite_and_of_these_people():
    with pytest.raises(ValueError, match="sensitive_features has 20 rows but there are 19 people"):
        Release(ROWS[:19], NOISE, GROUPS)
    with pytest.raises(ValueError, match="rows have entries that are NaN or infinite"):
        Release(ROWS / 0, NOISE, GROUPS)


def test_noise_can_be_given_in_three_ways():
    torch.testing.assert_close(as_noise(0.5, ROWS), 0.5 * torch.eye(3).double())
    torch.testing.assert_close(as_noise([1, 2, 3], ROWS), torch.diag(torch.arange(1.0, 4)).double())
    torch.testing.assert_close(as_noise(NOISE.numpy(), ROWS), NOISE)
    torch.testing.assert_close(as_noise(NOISE, ROWS), NOISE)


@pytest.mark.parametrize("noise", [-1, np.nan, [1, 2], np.ones((3, 2))])
def test_other_noise_is_refused(noise):
    with pytest.raises(ValueError, match="noise must be a (finite )?number"):
        as_noise(noise, ROWS)


def test_noise_must_be_finite_numbers():
    with pytest.raises(ValueError, match="noise has 1 NaN or infinite entries"):
        as_noise([1, np.inf, 1], ROWS)
    with pytest.raises(TypeError, match="noise must hold numbers, got 'much'"):
        as_noise("much", ROWS)


def test_large_noise_does_not_overflow():
    z = Release(ROWS, 1e300 * torch.eye(3).double(), GROUPS).in_units_of_noise()
    assert float(z.abs().max()) < 1e-290


def test_equal_rows_need_no_noise():
    z = Release(torch.ones(20, 3).double(), torch.zeros(3, 3).double(), GROUPS).in_units_of_noise()
    assert not z.any()
