import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair.dependence import gram
from parafair.dependence.hsic import centered_alignment, hsic, khsic
from parafair.dependence.kernels import Gaussian, Linear
from parafair.testing import example_groups, example_rows
from tests.reference.kernels import RationalQuadratic

KERNELS = [Gaussian(0.7), RationalQuadratic(2.0), Linear()]


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
    monkeypatch.setitem(gram.TILE_BYTES, "cpu", 1)
    monkeypatch.setitem(gram.WHOLE_BYTES, "cpu", 1)


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
    forward = hsic(x, y)
    backward = hsic(y, x)
    torch.testing.assert_close(forward, backward)
    # Each argument has its own bandwidth: rescaling one of them changes nothing.
    rescaled = hsic(x, 100 * y)
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


MEMORY_PROBE = """
import re, pathlib, torch
from parafair.dependence.hsic import khsic
from parafair.testing import example_groups, example_rows

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

khsic(example_rows(100, 16, 0), example_groups(100, 1))
before = peak()
rows = example_rows(12_000, 16, seed=0).requires_grad_()
khsic(rows, example_groups(12_000, seed=1)).backward()
assert torch.isfinite(rows.grad).all()
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_square_of_the_people():
    # In a process of its own, whose peak nothing else has raised. One n x n matrix is 1.2 GB.
    result = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) < 200_000  # kilobytes


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": (Linear(),)}, "kernels must be two, one for each sample, got 1"),
        ({"kernels": Linear()}, "kernels must be a list of two kernels, got"),
        ({"kernels": ("a", "b")}, "each of kernels must be a kernel such as"),
        ({"estimator": "exact"}, "estimator must be one of biased, unbiased; got 'exact'"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hsic(example_rows(6, 2, seed=0), example_rows(6, 1, seed=1), **options)


def test_batches_of_different_shapes_are_refused():
    first, second = torch.zeros(2, 4, 1), torch.zeros(3, 4, 1)
    with pytest.raises(ValueError, match="first and second must have batches of the same shape"):
        khsic(first, second)


def test_entries_whose_squares_overflow_are_refused():
    rows = 1e200 * torch.eye(4, dtype=torch.float64)
    with pytest.raises(ValueError, match="has entries whose squares overflow in these kernels"):
        hsic(rows, rows, kernels=(Linear(), Linear()))


def test_a_batch_has_gradients_in_the_sample_that_its_members_share():
    first = torch.stack([example_rows(6, 2, seed=0), 2 * example_rows(6, 2, seed=0)])
    second = example_rows(6, 1, seed=1).requires_grad_()
    khsic(first, second).sum().backward()
    one = second.detach().clone().requires_grad_()
    sum(khsic(member, one) for member in first).backward()
    torch.testing.assert_close(second.grad, one.grad)
