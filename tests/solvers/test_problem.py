import numpy as np
import pandas as pd
import pytest
import torch

from parafair.data.checks import as_tensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.penalties import HSIC
from parafair.solvers.problem import Problem
from parafair.testing import example_rows
from tests.conftest import small_problem
from tests.reference import paper_bcd


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_evaluate_equals_the_reconstruction(mode):
    problem = small_problem(HSIC(3.0), mode=mode)
    factors = [example_rows(n, problem.rank, seed=n) for n in problem.shape]
    judged = problem.evaluate([factor[None] for factor in factors])
    sensitive = problem.sensitive.encode()

    def penalty(factor):
        return paper_bcd.hsic_penalty(factor, sensitive, 3.0)

    slow = paper_bcd.objective(problem.tensor, factors, penalty, mode)
    torch.testing.assert_close(judged.value[0], slow)
    difference = problem.tensor - paper_bcd.reconstruct(factors)
    assert float(judged.residual) == pytest.approx(float(difference.norm() / problem.tensor.norm()))


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_tiny_residuals_are_not_lost_to_cancellation(dtype, size):
    factors = [example_rows(n, 2, seed=n) for n in (8, 7, 6)]
    tensor = paper_bcd.reconstruct(factors).to(dtype)
    moved = [factor.to(dtype) for factor in factors]
    moved[0] = moved[0] * (1 + size)
    residual = float(Problem(tensor, 2).evaluate([factor[None] for factor in moved]).residual)
    # In single precision the data itself is rounded to 1e-7.
    assert residual == pytest.approx(size, rel=1e-5 if dtype == torch.float64 else 0.05)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.array([[1, 2], [3, 4]], dtype=">f8"),
        np.array([[2, 1], [4, 3]], dtype=float)[:, ::-1],
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        torch.tensor([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], dtype=bool) * np.array([[1, 2], [3, 4]], dtype=np.float16),
    ],
)
def test_all_forms_of_numbers_are_read(value):
    expected = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    assert torch.equal(as_tensor(value), expected)


def test_read_only_arrays_are_accepted():
    array = np.arange(4.0).reshape(2, 2)
    array.setflags(write=False)
    assert as_tensor(array).shape == (2, 2)


def test_precision_is_kept_or_chosen():
    assert as_tensor(np.ones((2, 2), dtype=np.float32)).dtype == torch.float32
    assert as_tensor(np.ones((2, 2)), dtype=torch.float32).dtype == torch.float32


def bad(shape, index, value):
    tensor = np.ones(shape)
    tensor[index] = value
    return tensor


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (bad((2, 3, 4), (1, 2, 3), np.nan), ValueError, r"1 NaN or infinite.*index \(1, 2, 3\)"),
        (bad((2, 3), (0, 1), -np.inf), ValueError, r"1 NaN or infinite.*index \(0, 1\)"),
        (np.ones(5), ValueError, r"at least 2 modes, got shape \(5,\)"),
        (np.ones((3, 0, 2)), ValueError, "empty mode.*mode 1 has size 0"),
        (np.array([["a", "b"]]), TypeError, "must hold numbers, got an array of <U1"),
        (np.array([[1, None]]), TypeError, "must hold numbers, got an array of object"),
        (np.ones((2, 2), dtype=complex), TypeError, "must hold numbers, got an array of complex"),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError, "must hold real numbers"),
        (np.zeros((2, 2)), ValueError, "zero everywhere"),
        (np.full((2, 2), 1e160), ValueError, "too large or too small for float64"),
        (np.full((2, 2), 1e-200), ValueError, "too large or too small for float64"),
        (np.full((2, 2), 1e20, dtype=np.float32), ValueError, "too small for float32.*rescale"),
    ],
)
def test_bad_tensors_are_refused(value, error, message):
    with pytest.raises(error, match=message):
        Problem(as_tensor(value), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"rank": 2.5}, "rank must be a whole number of at least 1, got 2.5"),
        ({"rank": True}, "rank must be a whole number"),
        ({"rank": 13}, r"rank must be at most 12 for shape \(5, 4, 3\), got 13"),
        ({"mode": 3}, "mode must be between 0 and 2 for a tensor of order 3, got 3"),
        ({"mode": -1}, "mode must be between 0 and 2"),
        ({"penalty": HSIC()}, "needs sensitive features, but none were given"),
        (
            {"penalty": None, "sensitive": SensitiveFeatures.of([0, 1])},
            "sensitive_features has 2 rows but mode 0 of the tensor has 5",
        ),
        (
            {"penalty": HSIC(), "sensitive": SensitiveFeatures.of([0, 1])},
            "sensitive_features has 2 rows but mode 0 of the tensor has 5",
        ),
    ],
)
def test_bad_problems_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Problem(torch.ones(5, 4, 3), **{"rank": 2, **options})
