import pytest
import torch
from sklearn.metrics import pairwise

from parafair.dependence.kernels import (
    Delta,
    Gaussian,
    Linear,
    MultiscaleGaussian,
)
from parafair.testing import KernelContract, example_rows
from tests.reference.kernels import RationalQuadratic


class TestGaussian(KernelContract):
    @pytest.fixture
    def kernel(self):
        return Gaussian(0.7)

    def test_is_scikit_learns_rbf(self):
        rows = example_rows(6, 3, seed=0)
        expected = pairwise.rbf_kernel(rows.numpy(), gamma=0.7)
        torch.testing.assert_close(Gaussian(0.7)(rows, rows), torch.from_numpy(expected))

    @pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
    def test_a_large_mean_costs_no_digits(self, dtype, tol):
        rows = example_rows(6, 3, seed=0)
        shifted = (rows.to(dtype) + 1024).to(dtype)  # a power of two: the shift rounds little
        exact = Gaussian(1.0)(shifted.double() - 1024, shifted.double() - 1024)
        error = (Gaussian(1.0)(shifted, shifted).double() - exact).abs().max()
        assert error < tol

    def test_far_rows_give_zero_and_no_denormal_numbers(self):
        rows = torch.tensor([[0.0], [9.6], [1e3]])  # exp(-9.6**2) is denormal in float32
        gram = Gaussian(1.0)(rows, rows)
        assert gram[0, 1] < 1e-20
        assert (gram == 0).logical_or(gram > torch.finfo(torch.float32).tiny).all()


class TestMultiscaleGaussian(KernelContract):
    @pytest.fixture
    def kernel(self):
        return MultiscaleGaussian(0.1, count=3)

    def test_is_a_weighted_mean_of_gaussians(self):
        rows, kernel = example_rows(6, 3, seed=0), MultiscaleGaussian(0.1, count=3, decay=1.0)
        assert [gamma for gamma, _ in kernel.parts] == pytest.approx([0.1, 0.4, 1.6])
        assert [weight for _, weight in kernel.parts] == pytest.approx([4 / 7, 2 / 7, 1 / 7])
        expected = sum(weight * Gaussian(gamma)(rows, rows) for gamma, weight in kernel.parts)
        torch.testing.assert_close(kernel(rows, rows), expected)


class TestLinear(KernelContract):
    @pytest.fixture
    def kernel(self):
        return Linear()


def test_delta_is_one_for_equal_rows_only():
    rows = torch.tensor([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]])
    expected = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    assert torch.equal(Delta()(rows, rows), expected)
    value, gradient = Delta().within(rows, torch.ones(3, 3))
    assert value == 5
    assert not gradient.any()


class TestRationalQuadratic(KernelContract):
    @pytest.fixture
    def kernel(self):
        return RationalQuadratic(2.0)


class TestGamma:
    def test_median_rule_is_one_half_over_the_median_squared_distance(self):
        rows = torch.tensor([[0.0], [1.0], [3.0]])  # squared distances 1, 4, 9
        assert Gaussian("median").resolve(rows).gamma == pytest.approx(0.5 / 4)

    def test_median_rule_is_not_fooled_by_alternating_rows(self):
        rows = torch.tensor([[0.0], [1.0]]).repeat(1000, 1)
        assert Gaussian("median").resolve(rows).gamma == pytest.approx(0.5)

    def test_median_rule_needs_distinct_rows(self):
        with pytest.raises(ValueError, match="two distinct rows.*give gamma as a number"):
            Gaussian("median").resolve(torch.ones(5, 2))

    def test_median_must_be_resolved_before_use(self):
        with pytest.raises(ValueError, match="must be resolved from a sample"):
            Gaussian("median")(torch.ones(2, 1), torch.ones(2, 1))

    @pytest.mark.parametrize("gamma", [0, -1.0, float("inf"), float("nan"), "mean"])
    def test_other_gammas_are_refused(self, gamma):
        with pytest.raises(ValueError, match="gamma must be a positive number or 'median'"):
            Gaussian(gamma)
