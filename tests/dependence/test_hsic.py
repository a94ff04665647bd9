import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair.dependence import hsic as hsic_module
from parafair.dependence.hsic import (
    CenteredGram,
    centered_alignment,
    exact_low_rank_factor,
    hsic,
    kernel_sum,
    khsic,
    permutation_test,
)
from parafair.dependence.kernels import Delta, Gaussian, InverseMultiquadric, Laplace, Linear
from parafair.testing import example_groups, example_rows

KERNELS = [Gaussian(0.7), Laplace(0.5), InverseMultiquadric(2.0), Linear()]


def slow_hsic(first_gram, second_gram, estimator="biased"):
    """The definitions, with the whole centering matrix and explicit sums."""
    n = len(first_gram)
    if estimator == "biased":
        centering = torch.eye(n, dtype=first_gram.dtype) - 1 / n
        return torch.trace(first_gram @ centering @ second_gram @ centering) / n**2
    k, m = (g - torch.diag(g.diagonal()) for g in (first_gram, second_gram))
    total = (
        torch.trace(k @ m) + k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
    )
    return total / (n * (n - 3))


@pytest.fixture
def small_tiles(monkeypatch):
    """Make even small samples span many tiles."""
    monkeypatch.setitem(hsic_module.TILE_BYTES, "cpu", 1)
    monkeypatch.setitem(hsic.WHOLE_BYTES, "cpu", 1)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("second", ["groups", "numbers"])
def test_value_and_both_gradients_equal_the_definition(kernel, estimator, second, small_tiles):
    n = 70  # more than two tiles of 32
    x = example_rows(n, 3, seed=0).requires_grad_()
    y = example_groups(n, seed=1) if second == "groups" else example_rows(n, 4, seed=1)
    y = y.requires_grad_()
    other = Gaussian(0.3)
    fast = hsic(x, y, kernels=(kernel, other), estimator=estimator)
    grams = kernel(x, x), torch.exp(-0.3 * (y[:, None] - y[None]).square().sum(-1))
    slow = slow_hsic(*grams, estimator)
    torch.testing.assert_close(fast, slow)
    for mine, theirs in zip(
        torch.autograd.grad(fast, (x, y)), torch.autograd.grad(slow, (x, y)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-12)


def test_hand_computed_case():
    # A = S, balanced and binary: centered Gram entries are +-(1 - 1/e) / 2, four rows of each.
    rows = torch.tensor([[0.0], [1.0]]).double().repeat(4, 1)
    assert float(khsic(rows, rows)) == pytest.approx(((1 - np.exp(-1)) / 2) ** 2)
    assert float(centered_alignment(rows, rows)) == pytest.approx(1)


def test_symmetric_in_its_arguments_with_a_bandwidth_each():
    x, y = example_rows(40, 3, seed=0), 10 * example_rows(40, 1, seed=1)
    forward = hsic(x, y, kernels=(Gaussian("median"), Laplace("median")))
    backward = hsic(y, x, kernels=(Laplace("median"), Gaussian("median")))
    torch.testing.assert_close(forward, backward)
    # Each argument has its own bandwidth: rescaling one of them changes nothing.
    rescaled = hsic(x, 100 * y, kernels=(Gaussian("median"), Laplace("median")))
    torch.testing.assert_close(forward, rescaled)


def test_double_centered_so_constants_do_not_count():
    x, y = example_rows(30, 2, seed=0), example_rows(30, 1, seed=1)
    base = hsic(x, y, kernels=(Linear(), Linear()))
    torch.testing.assert_close(hsic(x + 5, y - 3, kernels=(Linear(), Linear())), base)
    covariance = (x - x.mean(0)).mT @ (y - y.mean(0)) / 30
    torch.testing.assert_close(base, covariance.square().sum())


def test_unbiased_estimator_is_centered_on_zero_for_independent_samples():
    values = [
        float(
            hsic(
                example_rows(30, 2, seed=s),
                example_rows(30, 1, seed=1000 + s),
                estimator="unbiased",
            )
        )
        for s in range(200)
    ]
    mean, error = np.mean(values), np.std(values) / np.sqrt(len(values))
    assert abs(mean) < 4 * error
    assert min(values) < 0


def test_alignment_is_a_cosine_and_zero_without_variation():
    x, y = example_rows(40, 3, seed=0), example_groups(40, seed=1)
    kernels = (Gaussian(1.0), Gaussian(1.0))
    value = float(centered_alignment(x, y, kernels=kernels))
    centering = torch.eye(40, dtype=torch.float64) - 1 / 40
    k, m = (centering @ Gaussian(1.0)(z, z) @ centering for z in (x, y))
    assert value == pytest.approx(float((k * m).sum() / (k.norm() * m.norm())))
    assert 0 < value < 1
    constant = torch.ones(40, 3, dtype=torch.float64)
    assert float(centered_alignment(constant, y, kernels=kernels)) == 0


def test_a_batch_gives_what_its_members_give():
    x, y = example_rows(20, 3, seed=0), example_groups(20, seed=1)
    batch = khsic(torch.stack([x, 2 * x]), y)
    torch.testing.assert_close(batch, torch.stack([khsic(x, y), khsic(2 * x, y)]))


def test_either_argument_may_be_a_batch():
    x, y = example_rows(20, 3, seed=0), example_groups(20, seed=1)
    forward, backward = khsic(x, torch.stack([y, 2 * y])), khsic(torch.stack([y, 2 * y]), x)
    torch.testing.assert_close(forward, torch.stack([khsic(x, y), khsic(x, 2 * y)]))
    torch.testing.assert_close(forward, backward)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_alignment_of_a_sample_with_itself_is_one_in_any_units(scale, dtype):
    x = scale * example_rows(30, 2, seed=0).to(dtype)
    kernels = (Linear(), Linear())
    assert float(centered_alignment(x, x, kernels=kernels)) == pytest.approx(1, abs=1e-5)


def test_first_use_in_inference_mode_does_no_harm():
    x, y = example_rows(21, 5, seed=0), example_groups(21, seed=1)
    with torch.inference_mode():
        khsic(x, y, gamma=0.123)
    x.requires_grad_()
    khsic(x, y, gamma=0.123).backward()
    assert torch.isfinite(x.grad).all()


def test_single_and_double_precision_agree():
    x, y = example_rows(50, 4, seed=0), example_groups(50, seed=1)
    torch.testing.assert_close(
        khsic(x.float(), y.float()).double(), khsic(x, y), rtol=1e-4, atol=1e-7
    )


class TestThinFactor:
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
        assert exact_low_rank_factor(example_rows(200, 8, seed=0), Laplace(1.0)) is None


class TestPermutationTest:
    def test_finds_a_nonlinear_dependence(self):
        x = example_rows(100, 1, seed=0)
        test = permutation_test(x, x.square(), random_state=0)
        assert test.p_value == pytest.approx(1 / 201)
        assert test.statistic > 3 * test.null_mean

    @pytest.mark.parametrize("dimensions", [1, 6])  # low_rank features and not
    def test_p_values_are_uniform_under_independence(self, dimensions):
        values = [
            permutation_test(
                example_rows(25, 2, seed=s),
                example_rows(25, dimensions, seed=500 + s),
                permutations=19,
                random_state=s,
            ).p_value
            for s in range(200)
        ]
        # Binomial(200, 0.1) is below 10 or above 32 once in a thousand.
        assert 10 <= sum(value <= 0.1 for value in values) <= 32
        assert np.mean(values) == pytest.approx(0.525, abs=0.07)

    def test_thin_and_plain_ways_agree(self, monkeypatch):
        x, y = example_rows(40, 3, seed=0), example_groups(40, seed=1)
        fast = permutation_test(x, y, random_state=3)
        monkeypatch.setattr(hsic_module, "exact_low_rank_factor", lambda *_: None)
        slow = permutation_test(x, y, random_state=3)
        assert fast.p_value == slow.p_value
        assert fast.null_mean == pytest.approx(slow.null_mean)

    def test_seed_is_honored(self):
        x, y = example_rows(30, 2, seed=0), example_groups(30, seed=1)
        runs = [permutation_test(x, y, random_state=s).null_mean for s in (0, 0, 1)]
        assert runs[0] == runs[1] != runs[2]

    def test_no_permutations_is_refused(self):
        with pytest.raises(ValueError, match="permutations must be at least 1, got 0"):
            permutation_test(torch.ones(4, 1), torch.ones(4, 1), permutations=0)


MEMORY_PROBE = """
import re, pathlib, torch
from parafair.dependence.hsic import khsic
from parafair.testing import example_groups, example_rows

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

khsic(example_rows(100, 16, 0), example_groups(100, 1))
before = peak()
rows = example_rows(20_000, 16, seed=0).requires_grad_()
khsic(rows, example_groups(20_000, seed=1)).backward()
assert torch.isfinite(rows.grad).all()
print(peak(), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_twenty_thousand_rows_need_less_than_two_gigabytes():
    # In a process of its own, whose peak nothing else has raised. One n x n matrix is 3.2 GB.
    result = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE], capture_output=True, text=True, check=True
    )
    total, added = map(int, result.stdout.split())
    assert total < 2_000_000  # kilobytes
    assert added < 200_000


def test_weights_are_cached_for_small_samples_only():
    weights = CenteredGram.of(example_groups(10, seed=0), Delta())
    whole = slice(0, 10)
    assert weights.tile(whole, whole) is weights.tile(whole, whole)
    value, _ = kernel_sum(example_rows(10, 2, seed=1), Linear(), weights)
    assert value.shape == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: khsic(torch.tensor([1.0, torch.nan]), torch.ones(2)),
            "first has NaN or infinite entries",
        ),
        (
            lambda: khsic(torch.ones(2), torch.tensor([1.0, torch.inf])),
            "second has NaN or infinite entries",
        ),
        (lambda: hsic(torch.rand(2, 5, 1), torch.rand(5)), "needs one sample, got a batch"),
        (lambda: khsic(torch.ones(3, 1), torch.ones(4, 1)), "same number of rows, got 3 and 4"),
        (lambda: khsic(torch.ones(1, 1), torch.ones(1, 1)), "first must have at least 2 rows"),
        (
            lambda: hsic(example_rows(5, 1, 0), example_rows(5, 1, 1), estimator="unbaised"),
            "did you mean 'unbiased'",
        ),
        (
            lambda: hsic(example_rows(3, 1, 0), example_rows(3, 1, 1), estimator="unbiased"),
            "at least 4 rows, got 3",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
