import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.checks import as_tensor
from parafair.problem import Problem
from parafair.sensitive import SensitiveFeatures


def small_problem(penalty=None, *, shape=(24, 9, 7), rank=3, mode=0, dtype=torch.float64):
    """A problem of a size at which everything is instant: synthetic data plus noise."""
    data = datasets.synthetic(1, shape=shape, rank=4)
    noise = np.random.default_rng(0).standard_normal(shape)
    tensor = as_tensor(data.tensor + 0.1 * noise, dtype=dtype)
    tensor = tensor.movedim(0, mode).contiguous()
    sensitive = SensitiveFeatures.of(data.sensitive)
    return Problem(tensor, rank, mode, penalty, sensitive)


@pytest.fixture(scope="session")
def data():
    return datasets.synthetic(0, shape=(40, 12, 10), rank=4)
