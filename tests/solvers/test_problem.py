import numpy as np
import pytest
import torch

from parafair.algebra import observed, segments
from parafair.algebra.tucker_tensor import Multilinear
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.penalties import HSIC, Invariant
from parafair.solvers.problem import Problem
from parafair.testing import example_rows
from tests.conftest import dense_of, small_problem
from tests.reference import paper_bcd
from tests.solvers.conftest import PENALTIES


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_evaluate_equals_the_reconstruction(mode):
    problem = small_problem(HSIC(3.0), mode=mode)
    factors = [example_rows(n, problem.rank, seed=n) for n in problem.shape]
    judged = problem.evaluate([factor[None] for factor in factors])
    sensitive = problem.sensitive.encode()

    def penalty(factor):
        return paper_bcd.hsic_penalty(factor, sensitive, 3.0)

    slow = paper_bcd.objective(problem.data.values, factors, penalty, mode)
    torch.testing.assert_close(judged.value[0], slow)
    difference = problem.data.values - paper_bcd.reconstruct(factors)
    assert float(judged.residual) == pytest.approx(
        float(difference.norm() / problem.data.values.norm())
    )


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_tiny_residuals_are_not_lost_to_cancellation(dtype, size):
    factors = [example_rows(n, 2, seed=n) for n in (8, 7, 6)]
    tensor = paper_bcd.reconstruct(factors).to(dtype)
    moved = [factor.to(dtype) for factor in factors]
    moved[0] = moved[0] * (1 + size)
    residual = float(
        Problem(TensorData.from_array(tensor), 2)
        .evaluate([factor[None] for factor in moved])
        .residual
    )
    # In single precision the data itself is rounded to 1e-7.
    assert residual == pytest.approx(size, rel=1e-5 if dtype == torch.float64 else 0.05)


def bad(shape, index, value):
    tensor = np.ones(shape)
    tensor[index] = value
    return tensor


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (bad((2, 3, 4), (1, 2, 3), np.inf), ValueError, r"has 1 infinite.*index \(1, 2, 3\)"),
        (bad((2, 3), (0, 1), -np.inf), ValueError, r"has 1 infinite.*index \(0, 1\)"),
        (np.ones(5), ValueError, r"at least 2 modes and none empty, got shape \(5,\)"),
        (np.ones((3, 0, 2)), ValueError, r"none empty, got shape \(3, 0, 2\)"),
        (np.array([["a", "b"]]), TypeError, "must hold numbers, got an array of <U1"),
        (np.array([[1, {}]]), TypeError, "must hold numbers, got an array of object"),
        (np.ones((2, 2), dtype=complex), TypeError, "must hold numbers, got an array of complex"),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError, "must hold real numbers"),
        (np.zeros((2, 2)), ValueError, "X is zero everywhere; there is nothing"),
        (np.full((2, 2), 1e160), ValueError, "too large or too small for float64"),
        (np.full((2, 2), 1e-200), ValueError, "too large or too small for float64"),
        (np.full((2, 2), 1e20, dtype=np.float32), ValueError, "too small for float32.*rescale"),
    ],
)
def test_bad_tensors_are_refused(value, error, message):
    with pytest.raises(error, match=message):
        Problem(TensorData.from_array(value), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"rank": 2.5}, "rank must be a whole number of at least 1, got 2.5"),
        ({"rank": True}, "rank must be a whole number"),
        ({"rank": 13}, r"rank must be at most 12 for shape \(5, 4, 3\), got 13"),
        ({"mode": 3}, "mode must be between 0 and 2 or one of mode_0, mode_1, mode_2, got 3"),
        ({"mode": -1}, "mode must be between 0 and 2 or one of"),
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
        Problem(TensorData.from_array(torch.ones(5, 4, 3)), **{"rank": 2, **options})


def test_people_left_out_of_the_criterion_do_not_change_it():
    rows = example_rows(24, 3, seed=3)
    groups = ["a", "b"] * 9 + [None] * 6
    known = SensitiveFeatures.of(groups[:18])
    all_people = SensitiveFeatures.of(groups, missing="exclude")
    for penalty in (*PENALTIES.values(), Invariant(5.0)):
        if penalty is None:
            continue
        tensor = small_problem().data.values
        whole = Problem(TensorData.from_array(tensor), 3, 0, penalty, all_people)
        part = Problem(TensorData.from_array(tensor[:18]), 3, 0, penalty, known)
        ridge = getattr(penalty, "ridge", 0.0) * rows[18:].square().sum()
        # The invariant penalty is in units of all entries.
        unit = float(tensor.square().mean() / tensor[:18].square().mean())
        unit = unit if isinstance(penalty, Invariant) else 1.0
        value, gradient = whole.bound.value_and_gradient(rows[None])
        expected, slope = part.bound.value_and_gradient(rows[None, :18])
        torch.testing.assert_close(value, unit * expected + ridge)
        torch.testing.assert_close(gradient[:, :18], unit * slope)
        if not getattr(penalty, "ridge", 0.0):
            assert not gradient[:, 18:].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "hsic"}, "penalty must be a Penalty, got 'hsic'"),
        ({"sensitive": ["a", "b"]}, "sensitive must be a SensitiveFeatures, got"),
        ({"other_sensitive": [1]}, "other_sensitive must be a Mapping, got"),
        ({"loss": np.ones(2)}, "loss must be one of squared, huber, .*; got"),
        (
            {"structure": float("inf"), "sensitive": SensitiveFeatures.of(["a", "b"])},
            "structure must be a Multilinear, got inf; use Multilinear",
        ),
        ({"structure": Multilinear((2, 2), (1, 1))}, "structure is for a matrix .* 4 columns"),
    ],
)
def test_parts_of_a_wrong_type_are_refused(options, message):
    data = TensorData.from_array(np.ones((2, 3)))
    with pytest.raises((TypeError, ValueError), match=message):
        Problem(data, 1, **options)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("storage", ["complete", "masked", "sparse"])
def test_gradients_of_loss_and_ridge_match_automatic_ones(storage, ridge, mode, monkeypatch):
    # A few rows, or segments, at a time.
    monkeypatch.setattr(observed, "NUMBERS_AT_ONCE", 400)
    monkeypatch.setattr(segments, "HELD", {"cpu": 2000})
    problem = small_problem(storage=storage, ridge=ridge, mode=mode)
    factors = [
        torch.stack([example_rows(n, problem.rank, seed=n + member) for member in range(2)])
        for n in problem.shape
    ]
    objective, gradients, _ = problem.value_and_gradients(factors)
    torch.testing.assert_close(objective.value, problem.evaluate(factors).value)
    torch.testing.assert_close(objective.residual, problem.evaluate(factors).residual)
    for member in range(2):
        own = [factor[member].clone().requires_grad_() for factor in factors]
        value = paper_bcd.objective(dense_of(problem), own, None)
        value = value + paper_bcd.ridge_penalty(own, ridge, mode) / problem.count
        torch.testing.assert_close(objective.value[member], value.detach())
        for mine, theirs in zip(gradients, torch.autograd.grad(value, own), strict=True):
            torch.testing.assert_close(mine[member], theirs)


@pytest.mark.parametrize("storage", ["complete", "masked", "sparse"])
def test_gradients_of_the_whole_objective_match_finite_differences(storage):
    single = small_problem(storage=storage, shape=(24, 8, 7))
    problem = Problem(
        single.data,
        3,
        0,
        Invariant(5.0),
        single.sensitive,
        0.5,
        other_sensitive={1: SensitiveFeatures.of(["a", "b"] * 4)},
    )
    factors = [example_rows(n, 3, seed=n)[None] for n in problem.shape]
    _, gradients, _ = problem.value_and_gradients(factors)
    width = 1e-5
    for mode, size in enumerate(problem.shape):
        direction = example_rows(size, 3, seed=50 + mode)[None]
        ahead, behind = (
            problem.evaluate(
                [f + sign * width * direction if m == mode else f for m, f in enumerate(factors)]
            )
            for sign in (1, -1)
        )
        slope = (ahead.value - behind.value) / (2 * width)
        expected = (gradients[mode] * direction).sum((-2, -1))
        torch.testing.assert_close(expected, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("storage", ["complete", "masked", "sparse"])
def test_gradients_agree_in_single_precision(storage):
    found = []
    for dtype in (torch.float32, torch.float64):
        problem = small_problem(Invariant(5.0), storage=storage, ridge=0.5, dtype=dtype)
        factors = [example_rows(n, 3, seed=n)[None].to(dtype) for n in problem.shape]
        objective, gradients, _ = problem.value_and_gradients(factors)
        assert objective.value.dtype == torch.float64
        assert {gradient.dtype for gradient in gradients} == {dtype}
        found.append((objective.value, *gradients))
    for single, double in zip(*found, strict=True):
        scale = float(double.abs().max())
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5 * scale)
