"""Data, device and precision as a caller gives them, checked before any work is done."""

from __future__ import annotations

from typing import Any

import torch

from parafair.data.arrays import check_finite, is_sparse
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
    """Raise unless tensors with values can be made there; None is where the data is."""
    if device is None:
        return
    try:
        torch.empty(0, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"device={device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu', or "
            "None for where the data is"
        ) from error


def as_data(
    X: Any,
    *,
    dtype: str | torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> TensorData:
    """Return what a caller passes as data as a `TensorData`; NaN is a missing entry.

    A sparse array is refused: its author must say what the entries are that it does not store.
    """
    if is_sparse(X):
        raise TypeError(
            "X is sparse, and the entries it does not store could be missing or zero; pass "
            "TensorData.from_array(X) if they are missing, or make it dense if they are zero"
        )
    wanted = resolve_dtype(dtype)
    check_device(device)
    return TensorData.from_array(X).to(device, wanted)


def check_scale(data: TensorData) -> None:
    """Raise unless the observed entries have a size that can be decomposed."""
    norm, limits = check_finite(data.values, "X", missing=True), torch.finfo(data.values.dtype)
    if norm == 0 and not data.values.nan_to_num(0.0).any():
        raise ValueError("X is zero everywhere; there is nothing to decompose")
    # Fourth powers of the norm occur on the way, in products of Gram matrices.
    least, most = limits.tiny**0.25, limits.max**0.25
    if not least < norm < most:
        raise ValueError(
            f"X has entries too large or too small for {limits.dtype}: its norm is {norm:.2g}, "
            f"expected {least:.0e} to {most:.0e}; rescale it"
        )
