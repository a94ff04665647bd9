from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import datasets
from parafair.data.arrays import as_tensor
from parafair.data.sensitive import SensitiveFeatures
from parafair.data.tensor_data import TensorData
from parafair.solvers.problem import Problem

# It works when it is imported, which the search for doctests would do.
collect_ignore = ["campaign/warm.py"]

# Real data is not part of the repository; it lies beside it where it is there at all.
REAL_DATA = Path(__file__).parents[1].parent / "shared" / "data"


def small_problem(
    penalty=None,
    *,
    shape=(24, 9, 7),
    rank=3,
    mode=0,
    dtype=torch.float64,
    storage="complete",
    ridge=0.0,
):
    """A problem of a size at which everything is instant: synthetic data plus noise.

    With storage "masked" or "sparse" a third of the entries is missing.
    """
    data = datasets.synthetic(1, shape=shape, rank=4)
    noise = np.random.default_rng(0).standard_normal(shape)
    tensor = as_tensor(data.tensor + 0.1 * noise, name="tensor", dtype=dtype)
    tensor = tensor.movedim(0, mode).contiguous()
    sensitive = SensitiveFeatures.of(data.sensitive_features)
    if storage != "complete":
        missing = np.random.default_rng(1).uniform(size=tensor.shape) < 1 / 3
        tensor[torch.from_numpy(missing)] = torch.nan
    stored = TensorData.from_array(tensor)
    if storage == "sparse":
        stored = stored.to_sparse()
    return Problem(stored, rank, mode, penalty, sensitive, ridge)


def dense_of(problem):
    """The data of a problem as one tensor, NaN where missing."""
    return problem.data.to_dense().values


@pytest.fixture(scope="session")
def data():
    return datasets.synthetic(0, shape=(40, 12, 10), rank=4)


@pytest.fixture(scope="session")
def real_data():
    if not REAL_DATA.is_dir():
        pytest.skip("no real data beside the repository")
    return REAL_DATA


def write_adult(path, people, *, seed, first="", dot=""):
    """Write a file in the form of Adult, with random answers."""
    random = np.random.default_rng(seed)
    columns = (
        range(17, 90), ("Private", "State-gov", "?"), range(10_000, 99_999), ("HS-grad", "Masters"),
        range(1, 17), ("Divorced", "Never-married"), ("Sales", "?"), ("Wife", "Husband"),
        ("White", "Black"), ("Female", "Male"), range(9), range(9), range(39, 42),
        ("United-States", "Cuba", "?"), (f"<=50K{dot}", f">50K{dot}"),
    )  # fmt: skip
    rows = zip(*(random.choice(column, people) for column in columns), strict=True)
    path.parent.mkdir(exist_ok=True)
    path.write_text(first + "\n".join(", ".join(map(str, row)) for row in rows) + "\n\n")


@pytest.fixture
def small_adult(tmp_path, monkeypatch):
    """A folder of data with small files in the form of Adult."""
    module = import_module("parafair.datasets.adult")  # the function has the same name
    monkeypatch.setattr(module, "ROWS", {"adult.data": 40, "adult.test": 20})
    monkeypatch.setattr(module, "_compare", lambda parts: None)
    write_adult(tmp_path / "adult" / "adult.data", 40, seed=0)
    write_adult(
        tmp_path / "adult" / "adult.test", 20, seed=1, first="|1x3 Cross validator\n", dot="."
    )
    return tmp_path
