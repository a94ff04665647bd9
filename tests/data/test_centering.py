import numpy as np
import torch

from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData
from parafair.losses import LOSSES


def additive(shape=(40, 6, 5)):
    """A tensor that is a mean and two offsets, observed in part."""
    random = np.random.default_rng(0)
    tensor = 50 + 5 * random.standard_normal(shape[1])[:, None] + random.standard_normal(shape[2])
    tensor = torch.from_numpy(np.broadcast_to(tensor, shape).copy())
    tensor[torch.from_numpy(random.uniform(size=shape) < 0.3)] = torch.nan
    return TensorData.from_array(tensor)


def test_offsets_of_an_additive_tensor_leave_next_to_nothing():
    data = additive()
    left = Offsets.of(data, people=0).subtract(data).entries
    deviation = (data.entries - data.entries.mean()).norm()
    assert left.norm() < 0.05 * deviation


def test_dense_and_sparse_have_the_same_offsets():
    data = additive()
    offsets = Offsets.of(data, people=0)
    listed = Offsets.of(data.to_sparse(), people=0)
    assert offsets.mean == listed.mean
    torch.testing.assert_close(offsets.by_mode, listed.by_mode)
    dense = offsets.subtract(data).values
    torch.testing.assert_close(dense[tuple(data.cells)], listed.subtract(data.to_sparse()).values)


def test_people_have_no_offset():
    assert set(Offsets.of(additive(), people=1).by_mode) == {0, 2}


def test_intercepts_are_where_the_slope_of_the_loss_nearly_vanishes():
    random = np.random.default_rng(0)
    rates = np.exp(random.standard_normal(6)[:, None] + random.standard_normal(5))
    tensor = random.poisson(np.broadcast_to(rates, (200, 6, 5))).astype(float)
    tensor[random.uniform(size=tensor.shape) < 0.3] = np.nan
    data, loss = TensorData.from_array(tensor), LOSSES["poisson"]
    offsets = Offsets.in_link(data, 0, loss)
    found = loss.mean(offsets.at(data.cells))
    for mode in (1, 2):
        total = torch.bincount(data.cells[mode], data.entries)
        torch.testing.assert_close(
            torch.bincount(data.cells[mode], found), total, rtol=0.02, atol=0.5
        )


def test_intercepts_are_components_and_a_label_of_zeros_has_a_finite_one():
    tensor = np.random.default_rng(0).poisson(2.0, size=(20, 4, 3)).astype(float)
    tensor[:, 1] = 0
    data = TensorData.from_array(tensor)
    offsets = Offsets.fit(data, 0, LOSSES["poisson"])
    assert torch.isfinite(offsets.by_mode[1]).all()
    model = torch.einsum("ir,jr,kr->ijk", *offsets.components(data.shape, data.values))
    torch.testing.assert_close(model, offsets.dense(data.values).expand_as(model))


def test_squared_errors_have_offsets_as_before():
    data = additive()
    found, expected = Offsets.fit(data, 0, LOSSES["squared"]), Offsets.of(data, 0)
    assert found.mean == expected.mean
    torch.testing.assert_close(found.by_mode, expected.by_mode)
