"""Numbers from outside: arrays and tensors, checked once."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parafair.data.arrays import has_labels, is_sparse
from parafair.data.tensor_data import TensorData
from parafair.errors import unknown_choice

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def resolve_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    """Return a precision by its name, or as it is given."""
    found = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if found is not None and found not in DTYPES.values():
        raise unknown_choice("dtype", dtype, DTYPES)
    return found  # type: ignore[return-value]


def check_device(device: str | torch.device | None) -> None:
    """Raise unless tensors can be made there."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device={device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu', or "
            "None for where the data is"
        ) from error


def as_tensor(
    value: Any,
    *,
    name: str = "tensor",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    missing: bool = False,
) -> Tensor:
    """Return an array, nested list or tensor as a floating point tensor with finite entries.

    Args:
        value: Numbers.
        name: What messages call it.
        dtype: torch.float32 or torch.float64; None keeps these two and makes the rest float64.
        device: Where to put it; None leaves it where it is.
        missing: Whether NaN and masked entries are allowed; both become NaN.
    """
    if not isinstance(value, Tensor):
        if np.ma.is_masked(value):
            if not missing:
                raise ValueError(
                    f"{name} has masked entries; remove or impute them first, the mask would be "
                    "lost"
                )
            value = value.astype(np.result_type(value.dtype, np.float32)).filled(np.nan)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} must hold numbers, got an array of {array.dtype}; convert it first, for "
                "example with numpy.asarray(values, dtype=float)"
            )
        # torch takes neither foreign byte order, negative strides nor read-only memory.
        native = np.float32 if array.dtype == np.float32 else np.float64
        array = np.ascontiguousarray(array, native)
        value = torch.from_numpy(array if array.flags.writeable else array.copy())
    if value.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {value.dtype}; split it into parts")
    if dtype is None:
        dtype = value.dtype if value.dtype == torch.float32 else torch.float64
    tensor: Tensor = value.detach().to(dtype=dtype, device=device).contiguous()
    check_finite(tensor, name, missing=missing)
    return tensor


def as_data(
    value: Any, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor | TensorData:
    """Return a tensor in which NaN is missing, or, with labels or as a list, a `TensorData`."""
    if is_sparse(value):
        raise TypeError(
            "tensor is sparse, and what it does not store could be missing or zero; pass "
            "TensorData.from_array(tensor) if it is missing, or make it dense if it is zero"
        )
    if isinstance(value, TensorData) or has_labels(value):
        return TensorData.from_array(value).to(device, dtype)
    return as_tensor(value, dtype=dtype, device=device, missing=True)


def check_finite(tensor: Tensor, name: str = "tensor", *, missing: bool = False) -> float:
    """Return the norm of what is there; raise if an entry is infinite, or NaN unless allowed."""
    # The norm is undefined if any entry is, and needs no memory to find out.
    norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
    if isfinite(norm):
        return norm
    bad = torch.isinf(tensor) if missing else ~torch.isfinite(tensor)
    if bad.any():
        where = tuple(bad.nonzero()[0].tolist())
        kind = "infinite" if missing else "NaN or infinite"
        raise ValueError(
            f"{name} has {int(bad.sum())} {kind} entries, the first at index {where}; "
            "remove or impute them first"
        )
    return float(torch.linalg.vector_norm(tensor.nan_to_num(0.0), dtype=torch.float64))


def check_tensor(tensor: Tensor | TensorData) -> None:
    """Raise unless the tensor can be decomposed; NaN is a missing entry."""
    if len(tensor.shape) < 2:
        raise ValueError(
            f"tensor must have at least 2 modes, got shape {tuple(tensor.shape)}; for one vector "
            "there is nothing to decompose"
        )
    if 0 in tensor.shape:
        empty = list(tensor.shape).index(0)
        raise ValueError(
            f"tensor has an empty mode: shape {tuple(tensor.shape)}, mode {empty} has size 0; "
            "every mode needs at least one index"
        )
    values = tensor.values if isinstance(tensor, TensorData) else tensor
    norm, limits = check_finite(values, missing=True), torch.finfo(values.dtype)
    if norm == 0 and torch.isnan(values).all():
        raise ValueError("tensor has no observed entry; there is nothing to decompose")
    if norm == 0 and not values.nan_to_num(0.0).any():
        raise ValueError("tensor is zero everywhere; there is nothing to decompose")
    # Fourth powers of the norm occur on the way, in products of Gram matrices.
    least, most = limits.tiny**0.25, limits.max**0.25
    if not least < norm < most:
        raise ValueError(
            f"tensor has entries too large or too small for {limits.dtype}: its norm is "
            f"{norm:.2g}, expected {least:.0e} to {most:.0e}; rescale it"
        )
