import numpy as np
import torch

from parafair import FairCP, TensorData, datasets
from parafair.encoders.inputs import PositionEncoder, make_inputs, principal_directions
from parafair.model.preparation import Settings


def problem_of(tensor, features):
    return Settings.of(FairCP(rank=2)).bind(TensorData(torch.as_tensor(tensor)), features)


def test_principal_directions_are_those_of_a_direct_solve():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((60, 8)) * 2.0 ** -np.arange(8)
    directions, sizes = principal_directions(torch.as_tensor(matrix), 8)
    np.testing.assert_allclose(sizes, np.linalg.svd(matrix)[1], rtol=1e-10)
    np.testing.assert_allclose(directions.mT @ directions, np.eye(8), atol=1e-10)
    few, large = principal_directions(torch.as_tensor(matrix), 3)
    np.testing.assert_allclose(large, sizes[:3], rtol=1e-6)
    np.testing.assert_allclose((few.mT @ directions[:, :3]).abs(), np.eye(3), atol=1e-3)


def test_inputs_of_complete_entries_are_centered_and_of_size_1():
    random = np.random.default_rng(0)
    task = problem_of(random.standard_normal((200, 30)) + 1, random.integers(0, 2, 200).astype(str))
    inputs = make_inputs(task.problem, task.fit_plain().cp.factors).encode(task.problem.data)
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-6)
    deviations = inputs.std(0, correction=0)
    assert float(deviations.max()) <= 1 + 1e-5
    # Fewer than all 30 columns, because there are few people.
    assert inputs.shape[1] == 10


def test_inputs_of_incomplete_entries_are_least_squares_rows_and_counts():
    data = datasets.synthetic(0, shape=(50, 6, 5), rank=3)
    tensor = np.array(data.tensor, dtype=float)
    tensor[np.random.default_rng(0).random(tensor.shape) < 0.4] = np.nan
    task = problem_of(tensor, data.sensitive_features)
    factors = task.fit_plain().cp.factors
    encoder = make_inputs(task.problem, factors)
    assert isinstance(encoder, PositionEncoder)
    inputs = encoder.encode(task.problem.data)
    np.testing.assert_allclose(inputs.std(0, correction=0), 1, rtol=1e-6)
    found = inputs[7] * encoder.deviation + encoder.mean
    columns = torch.einsum("jr,kr->jkr", factors[1], factors[2]).reshape(30, 2).numpy()
    entries = tensor[7].reshape(30)
    seen = ~np.isnan(entries)
    ridge = task.problem.ridge * (columns**2).mean(0)
    gram = columns[seen].T @ columns[seen] + np.diag(ridge)
    expected = np.linalg.solve(gram, columns[seen].T @ entries[seen])
    np.testing.assert_allclose(found[:2], expected, rtol=1e-5)
    np.testing.assert_allclose(found[2], np.log1p(seen.sum()), rtol=1e-6)
