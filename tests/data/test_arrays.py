import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from parafair.data.arrays import as_tensor
from parafair.data.devices import check_device, resolve_dtype
from parafair.data.tensor_data import TensorData


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.array([[1, 2], [3, 4]], dtype=">f8"),
        np.array([[2, 1], [4, 3]], dtype=float)[:, ::-1],
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        torch.tensor([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], dtype=object),
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


@pytest.mark.parametrize(
    "value",
    [
        np.eye(2, dtype=np.float16),
        np.ma.masked_less(np.eye(2, dtype=np.float16), 0),
        torch.eye(2).half(),
        torch.eye(2).bfloat16(),
    ],
)
def test_half_precision_is_computed_in_single_precision(value):
    assert torch.equal(as_tensor(value), torch.eye(2))
    assert TensorData.from_array(value).values.dtype == torch.float32


def test_an_array_of_size_one_may_be_reversed():
    assert as_tensor(np.ones((1, 3))[::-1]).shape == (1, 3)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0, np.nan]], r"rows has 1 NaN or infinite entries, the first at index \(0, 1\)"),
        ([[np.inf, 2.0]], r"rows has 1 NaN or infinite entries, the first at index \(0, 0\)"),
        (
            np.ma.masked_equal([[1.0, 2.0]], 2),
            "rows has masked entries, and missing values are not",
        ),
    ],
)
def test_missing_and_infinite_entries_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        as_tensor(value, name="rows")


def test_a_device_without_values_is_refused():
    with pytest.raises(ValueError, match="device='meta' cannot be used here"):
        check_device("meta")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.eye(2).to_sparse(), "X must be dense, got a tensor of torch.sparse_coo"),
        (sparse.csr_array(np.eye(2)), r"X must be dense, got a csr_array of shape \(2, 2\); use"),
        (torch.eye(2, device="meta"), "X must hold numbers, but it is on the device 'meta'"),
        ([[1, 2], [3]], "X must be an array with rows of equal length, got"),
        (iter([1]), "X must hold numbers, got <list_iterator object"),
    ],
)
def test_what_holds_no_numbers_is_refused(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_tensor(value, name="X")


def test_whole_numbers_too_large_for_floats_count_as_infinite():
    with pytest.raises(ValueError, match="X has 1 NaN or infinite entries, the first at index"):
        as_tensor([10**400, 1], name="X")


@pytest.mark.parametrize("dtype", ["float16", int, np.dtype("f4"), pd.DataFrame(), torch.int64])
def test_other_precisions_are_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be one of float32, float64; got"):
        resolve_dtype(dtype)


@pytest.mark.parametrize("device", [0, 1.5, "gpu", ["cpu"], ""])
def test_what_is_no_device_is_refused(device):
    with pytest.raises(ValueError, match="cannot be used here .* use 'cpu', or None"):
        check_device(device)
