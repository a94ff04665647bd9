import numpy as np
import pytest
import torch

from parafair import TensorData
from parafair.encoders import LinearEncoder


def test_rows_are_entries_times_weights():
    random = np.random.default_rng(0)
    tensor = random.standard_normal((3, 5, 2))
    parts = [torch.from_numpy(random.standard_normal(s)) for s in ((6,), (6, 2), (2,))]
    encoder = LinearEncoder(1, *parts)
    unfolded = np.moveaxis(tensor, 1, 0).reshape(5, 6)
    mean, weights, constant = (part.numpy() for part in parts)
    expected = (unfolded - mean) @ weights + constant
    np.testing.assert_allclose(encoder.encode(TensorData.from_array(tensor)), expected)
    matrix = torch.from_numpy(random.standard_normal((2, 4)))
    rows = encoder.then(matrix).encode(TensorData.from_array(tensor).to_sparse())
    np.testing.assert_allclose(rows, expected @ matrix.numpy())
    single = encoder.encode(TensorData.from_array(tensor.astype(np.float32)))
    assert single.dtype == torch.float32
    assert repr(encoder) == "LinearEncoder(6 entries -> 2)"


def test_the_first_person_with_a_missing_entry_is_named():
    values = np.ones((3, 2, 2))
    values[1, 0, 1] = np.nan
    values[2, 1, 1] = np.nan
    data = TensorData.from_array(
        values, modes=("who", "what", "when"), labels=(["x", "y", "z"], ["art", "law"], [7, 8])
    )
    encoder = LinearEncoder(0, *(torch.zeros(s) for s in ((4,), (4, 1), (1,))))
    for each in (data, data.to_sparse()):
        with pytest.raises(ValueError, match=r"who y has no entry at what art, when 8 \(2 of 3"):
            encoder.encode(each)


def test_an_encoder_of_another_model_is_refused():
    encoder = LinearEncoder(0, *(torch.zeros(s) for s in ((4,), (4, 1), (1,))))
    encoder.check((9, 2, 2), 1)
    with pytest.raises(ValueError, match="it is for 4 entries per person, but the model has 6"):
        encoder.check((9, 2, 3), 1)
    with pytest.raises(ValueError, match="but the model has rank 2"):
        encoder.check((9, 2, 2), 2)
    with pytest.raises(ValueError, match="its mode must be from 0 to 1, got 5"):
        LinearEncoder(5, encoder.mean, encoder.weights, encoder.constant).check((9, 4), 1)
    with pytest.raises(ValueError, match="does not have the shape of its weights"):
        LinearEncoder(0, torch.zeros(3), encoder.weights, encoder.constant).check((9, 4), 1)
