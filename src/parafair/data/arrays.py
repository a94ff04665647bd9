"""Arrays from outside: the one conversion to tensors, and to the parts of a `TensorData`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from parafair.arguments import to_numpy
from parafair.data.devices import precision_for
from parafair.data.labels import NUMBERS, as_float, is_missing
from parafair.errors import shown

# Numbers of a piece of a tensor that may be larger than memory, because it is in a file.
PIECE = 2**17


@dataclass(frozen=True, eq=False)
class RawTensor:
    """What an array consists of.

    Attributes:
        values: All entries, NaN where missing, or those that are stored, shape (count,).
        indices: Their places, shape (order, count); None if all entries are there.
        shape: Sizes of the modes.
        modes: Names of the modes, None where the array has none.
        labels: Labels of each mode, None where the array has none.
    """

    values: Tensor
    indices: Tensor | None
    shape: tuple[int, ...]
    modes: tuple[str | None, ...]
    labels: tuple[Any, ...]


def read_array(array: Any, name: str = "array") -> RawTensor:
    """Take an array apart; an error calls it by this name.

    Takes NumPy (masked arrays too), torch (dense, sparse), SciPy sparse, xarray DataArrays and data
    frames as matrices. What a sparse array does not store is missing; what it stores twice is
    summed, as these libraries define it.
    """
    if isinstance(array, Tensor):
        return _read_torch(array, name)
    if is_sparse(array):
        return _read_scipy(array, name)
    if has_labels(array):
        return _read_xarray(array, name)
    if hasattr(array, "columns") and hasattr(array, "to_numpy"):
        return _read_frame(array, name)
    return _dense(to_tensor(array, name).contiguous())


def is_sparse(array: Any) -> bool:
    """Tell whether an array of torch or SciPy stores some of its entries only."""
    if isinstance(array, Tensor):
        return array.layout != torch.strided
    return bool(sparse.issparse(array))


def has_labels(array: Any) -> bool:
    """Tell whether an array is one of xarray, with labels in any number of dimensions."""
    return hasattr(array, "dims") and hasattr(array, "coords")


def check_count(argument: str, given: Sequence[Any], order: int) -> None:
    """Raise unless there is one of something for each mode."""
    if len(given) != order:
        raise ValueError(f"{argument} must have {order} entries, one per mode, got {len(given)}")


def _dense(
    values: Tensor, modes: tuple[str | None, ...] = (), labels: tuple[Any, ...] = ()
) -> RawTensor:
    nothing = (None,) * values.ndim
    return RawTensor(values, None, tuple(values.shape), modes or nothing, labels or nothing)


def _read_torch(array: Tensor, called: str) -> RawTensor:
    if array.layout == torch.strided:
        return _dense(to_tensor(array, called).contiguous())
    stored = (array if array.layout == torch.sparse_coo else array.to_sparse_coo()).coalesce()
    if stored.is_meta:
        return _dense(to_tensor(stored.to_dense(), called))
    if stored.dense_dim():
        raise ValueError(
            f"{called} has {stored.dense_dim()} dense dimensions beside its sparse ones; use "
            f"{called}.to_dense().to_sparse(), which has none"
        )
    nothing = (None,) * stored.ndim
    return RawTensor(
        to_tensor(stored.values(), called), stored.indices(), tuple(stored.shape), nothing, nothing
    )


def _read_scipy(array: Any, called: str) -> RawTensor:
    stored = array.tocoo(copy=True)
    stored.sum_duplicates()
    places = getattr(stored, "coords", None) or (stored.row, stored.col)  # before SciPy 1.13
    indices = torch.from_numpy(np.stack([place.astype(np.int64) for place in places]))
    nothing = (None,) * len(array.shape)
    return RawTensor(to_tensor(stored.data, called), indices, tuple(array.shape), nothing, nothing)


def _read_xarray(array: Any, called: str) -> RawTensor:
    if hasattr(array, "data_vars"):
        raise TypeError(
            f"{called} is an xarray Dataset; pass one of its variables: "
            f"{', '.join(array.data_vars)}"
        )
    labels = tuple(
        array.coords[name].values if name in array.coords else None for name in array.dims
    )
    return _dense(to_tensor(array.values, called), tuple(map(str, array.dims)), labels)


def _read_frame(table: Any, called: str) -> RawTensor:
    """Read a data frame as a matrix; only pandas has labels for the rows."""
    if not hasattr(table, "index"):
        return _dense(
            to_tensor(table.to_numpy(), called), (None, None), (None, np.array(table.columns))
        )
    for axis, name in ((table.index, "index"), (table.columns, "columns")):
        if getattr(axis, "nlevels", 1) > 1:
            raise ValueError(
                f"{called} is a data frame with {axis.nlevels} levels in its {name}; flatten "
                "them, or make it long and use TensorData.from_table"
            )
    modes = tuple(
        None if axis.name is None else str(axis.name) for axis in (table.index, table.columns)
    )
    return _dense(
        to_tensor(table.to_numpy(), called), modes, (table.index.values, table.columns.values)
    )


def as_tensor(value: Any, *, name: str = "array", dtype: torch.dtype | None = None) -> Tensor:
    """Return numbers as a floating point tensor without missing or infinite entries.

    Args:
        value: An array, nested list or tensor.
        name: What messages call it.
        dtype: torch.float32 or torch.float64; None keeps these two, and makes numbers of half
            precision float32 and the rest float64.
    """
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} has masked entries, and missing values are not allowed here; remove or impute "
            "them first"
        )
    tensor = to_tensor(value, name).to(dtype=dtype).contiguous()
    check_finite(tensor, name)
    return tensor


def check_finite(
    tensor: Tensor, name: str, *, missing: bool = False, indices: Tensor | None = None
) -> float:
    """Return the norm of the observed entries; raise if one is infinite, or NaN unless allowed.

    Args:
        tensor: The entries.
        name: What they are called.
        missing: Whether NaN is a missing entry.
        indices: The positions of listed entries, shape (order, count); None for a whole tensor.
    """
    # The norm is undefined if any entry is, and needs little memory to find out.
    norm = _norm(pieces(tensor))
    if isfinite(norm):
        return norm

    def wrong(part: Tensor) -> Tensor:
        return torch.isinf(part) if missing else ~torch.isfinite(part)

    # Squares of entries that are finite may overflow too.
    if any(bool(wrong(piece).any()) for piece in pieces(tensor)):
        bad = wrong(tensor)
        first = bad.nonzero()[0]
        where = tuple((first if indices is None else indices[:, int(first)]).tolist())
        kind = "infinite" if missing else "NaN or infinite"
        remedy = "or make them NaN to mark them missing" if missing else "or impute them"
        raise ValueError(
            f"{name} has {int(bad.sum())} {kind} entries, the first at index {where}; remove them, "
            f"{remedy}"
        )
    return _norm(piece.nan_to_num(0.0) for piece in pieces(tensor))


def _norm(parts: Iterable[Tensor]) -> float:
    """Return the norm of all parts together, in double precision."""
    return hypot(*(float(torch.linalg.vector_norm(part, dtype=torch.float64)) for part in parts))


def pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor in views of some rows each: what is made of one takes little memory."""
    if not tensor.ndim:
        yield tensor
        return
    rows = max(1, PIECE // max(1, tensor[:1].numel()))
    yield from tensor.split(rows)


def to_tensor(array: Any, name: str) -> Tensor:
    """Return numbers as a tensor of float32 or float64, NaN where they are masked, None or NA."""
    if isinstance(array, Tensor):
        return _dense_tensor(array, name)
    if is_sparse(array):
        kind = f"{type(array).__name__} of shape {array.shape}"
        raise TypeError(f"{name} must be dense, got a {kind}; use toarray()")
    masked = isinstance(array, np.ma.MaskedArray)
    values = np.ma.getdata(array) if masked else to_numpy(array, name)
    if values.dtype.kind == "O":
        values = _objects_to_numbers(values)
    if values.dtype.kind not in "biuf":
        got = f"an array of {values.dtype}" if values.ndim else shown(array)
        raise TypeError(
            f"{name} must hold numbers, got {got}; convert it first, for "
            "example with numpy.asarray(values, dtype=float)"
        )
    native = np.float32 if values.dtype in (np.float16, np.float32) else np.float64
    # torch takes neither foreign byte order, negative strides nor read-only memory.
    found = np.ascontiguousarray(values, native)
    if any(stride < 0 for stride in found.strides):  # contiguous to NumPy if its size is 1
        found = found.copy()
    if masked:
        found = np.where(np.ma.getmaskarray(array), native(np.nan), found)
    return torch.from_numpy(found if found.flags.writeable else found.copy())


def _dense_tensor(tensor: Tensor, name: str) -> Tensor:
    """Return a dense tensor of float32 or float64 without a history of gradients."""
    if tensor.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {tensor.dtype}; split it into parts")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got a tensor of {tensor.layout}; use to_dense()")
    if tensor.is_meta:
        raise ValueError(
            f"{name} must hold numbers, but it is on the device 'meta', where tensors "
            "have none; make it on another device"
        )
    return tensor.detach().to(precision_for(tensor.dtype))


def _objects_to_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return Python numbers with None or NA among them as floats, or what was given."""
    flat = values.ravel().tolist()
    if not all(is_missing(value) or isinstance(value, NUMBERS) for value in flat):
        return values
    numbers = [np.nan if is_missing(value) else as_float(value) for value in flat]
    return np.array(numbers, np.float64).reshape(values.shape)
