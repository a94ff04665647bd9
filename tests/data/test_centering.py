import numpy as np
import torch

from parafair.data.centering import Offsets
from parafair.data.tensor_data import TensorData


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
