from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData, datasets
from parafair.encoders.files import read_encoder, write_encoder
from parafair.encoders.inputs import (
    PositionEncoder,
    Shares,
    make_inputs,
    principal_directions,
)
from parafair.model.preparation import Settings
from parafair.storage import new_folder
from parafair.stored import read_record, write_record


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


@pytest.fixture
def incomplete():
    data = datasets.synthetic(0, shape=(50, 6, 5), rank=3)
    tensor = np.array(data.tensor, dtype=float)
    tensor[np.random.default_rng(0).random(tensor.shape) < 0.4] = np.nan
    return tensor, problem_of(tensor, data.sensitive_features)


def test_inputs_of_incomplete_entries_are_least_squares_rows_and_counts(incomplete):
    tensor, task = incomplete
    factors = task.fit_plain().cp.factors
    encoder = make_inputs(task.problem, factors)
    assert isinstance(encoder, PositionEncoder)
    inputs = encoder.encode(task.problem.data)
    assert inputs.shape[1] == 2 + 1 + 2 + 2  # 50 people have two directions for each mode
    np.testing.assert_allclose(inputs[:, :3].std(0, correction=0), 1, rtol=1e-6)
    found = inputs[7] * encoder.deviation + encoder.mean
    columns = torch.einsum("jr,kr->jkr", factors[1], factors[2]).reshape(30, 2).numpy()
    entries = tensor[7].reshape(30)
    seen = ~np.isnan(entries)
    ridge = task.problem.ridge * (columns**2).mean(0)
    gram = columns[seen].T @ columns[seen] + np.diag(ridge)
    expected = np.linalg.solve(gram, columns[seen].T @ entries[seen])
    np.testing.assert_allclose(found[:2], expected, rtol=1e-5)
    np.testing.assert_allclose(found[2], np.log1p(seen.sum()), rtol=1e-6)
    shares = (~np.isnan(tensor[7])).sum(1) / seen.sum()
    np.testing.assert_allclose(found[3:5], shares @ encoder.directions[0].numpy(), rtol=1e-6)


def test_shares_are_those_of_the_entries_of_each_person():
    tensor = np.array([[[1.0, np.nan], [2.0, 3.0]], [[np.nan, np.nan], [np.nan, 4.0]]])
    data = TensorData.from_array(tensor)
    columns = torch.eye(2, dtype=torch.float64)
    for stored in (data, data.to_sparse()):
        first, second = Shares.of(stored, 0, 1), Shares.of(stored, 0, 2)
        np.testing.assert_allclose(first @ columns, [[1 / 3, 2 / 3], [0, 1]])
        np.testing.assert_allclose(first.mT @ columns, [[1 / 3, 0], [2 / 3, 1]])
        np.testing.assert_allclose(second @ columns, [[2 / 3, 1 / 3], [0, 1]])
        assert first.shape == first.mT.shape == (2, 2)
        np.testing.assert_allclose(Shares.of(stored, 2, 0) @ columns, [[1, 0], [0.5, 0.5]])


def test_an_encoder_sees_which_entries_are_there():
    """People of two kinds, with the same entries but at other labels."""
    tensor = np.full((200, 2, 3), np.nan)
    kinds = np.arange(200) % 2
    tensor[np.arange(200), kinds] = np.random.default_rng(0).standard_normal((200, 3))
    task = problem_of(tensor, kinds.astype(str))
    encoder = make_inputs(task.problem, task.fit_plain().cp.factors)
    alone = torch.full((2, 2, 3), torch.nan, dtype=torch.float64)
    alone[[0, 1], [0, 1]] = 0.0  # so least-squares rows are zero, and equal
    found = encoder.encode(TensorData(alone))
    np.testing.assert_allclose(found[0, :3], found[1, :3], atol=1e-9)
    assert (found[0, 3:5] - found[1, 3:5]).abs().max() > 1


def test_an_encoder_of_an_earlier_version_sees_the_rows_and_the_count_alone(incomplete, tmp_path):
    _, task = incomplete
    encoder = make_inputs(task.problem, task.fit_plain().cp.factors)
    earlier = replace(
        encoder, mean=encoder.mean[:3], deviation=encoder.deviation[:3], directions=()
    )
    with new_folder(tmp_path / "earlier") as target:
        write_encoder(target, earlier)
        record = read_record(target / "encoder.json", file_format=1)
        del record["settings"]["directions"]
        write_record(target / "encoder.json", {"format": 1, **record})
    loaded = read_encoder(tmp_path / "earlier", (50, 6, 5), 3)
    data = task.problem.data
    np.testing.assert_allclose(loaded.encode(data), encoder.encode(data)[:, :3], rtol=1e-9)
    with new_folder(tmp_path / "now") as target:
        write_encoder(target, encoder)
    again = read_encoder(tmp_path / "now", (50, 6, 5), 7)
    np.testing.assert_allclose(again.encode(data), encoder.encode(data), rtol=1e-9)
    with pytest.raises(ValueError, match="its directions do not belong to a model of shape"):
        encoder.check((50, 5, 6), 7)
