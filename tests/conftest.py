from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.problem import Problem, as_tensor
from parafair.sensitive import SensitiveFeatures

# Real data is not part of the repository; it lies beside it where it is there at all.
REAL_DATA = Path(__file__).parents[1].parent / "shared" / "data"


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


@pytest.fixture(scope="session")
def real_data():
    if not REAL_DATA.is_dir():
        pytest.skip("no real data beside the repository")
    return REAL_DATA
