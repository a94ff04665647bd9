"""Data as a caller gives it, checked before any work is done."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from parafair.data.arrays import is_sparse, read_array
from parafair.data.devices import check_device, resolve_dtype
from parafair.data.tensor_data import TensorData, data_of
from parafair.losses import Loss
from parafair.team import ALONE, Team


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
            "TensorData.from_array(X) if they are missing, or TensorData.from_array(X, "
            "absent='zero') if they are zero"
        )
    wanted = resolve_dtype(dtype)
    check_device(device)
    data = X if isinstance(X, TensorData) else data_of(read_array(X, "X"))
    return converted(data, device, wanted)


def converted(
    data: TensorData, device: torch.device | str | None, dtype: str | torch.dtype | None
) -> TensorData:
    """Return data on a device and in a precision; raise if an entry is too large for it.

    Args:
        data: The data.
        device: The device; None for that of the data.
        dtype: The precision; None for that of the data.
    """
    try:
        return data.to(device, dtype)
    except ValueError as error:
        wanted = resolve_dtype(dtype)
        limit = torch.finfo(data.dtype if wanted is None else wanted).max
        wrong = data.values.abs() > limit
        if not wrong.any():
            raise
        raise ValueError(
            f"X has {first_of(data, wrong)}, but the largest number of {wanted} is {limit:.2g}; "
            "rescale the entries, or use dtype='float64'"
        ) from error


def first_of(data: TensorData, wrong: Tensor) -> str:
    """Return the value and the labels of the first of some entries, and how many more there are."""
    first = wrong.nonzero()[0]
    value = float(data.values[tuple(first)])
    place = first if data.indices is None else data.indices[:, first[0]]
    labels = zip(data.modes, data.labels, place.tolist(), strict=True)
    where = ", ".join(f"{mode} {own[number]}" for mode, own, number in labels)
    others = int(wrong.sum()) - 1
    return f"{value:g} at {where}" + (f", and {others:,} more like it" if others else "")


def check_scale(data: TensorData, team: Team = ALONE) -> None:
    """Raise unless the observed entries have a size that can be decomposed.

    Args:
        data: The data.
        team: All processes; each has the data of some of the people.
    """
    norm, limits = data.norm, torch.finfo(data.dtype)
    if not team.is_alone:
        norm = team.add(norm * norm) ** 0.5  # which may be infinite
    if norm == 0 and (data.is_streamed or not data.values.nan_to_num(0.0).any()):
        raise ValueError(
            "X is zero everywhere; there is nothing to decompose. Pass other data, or center=False "
            "if it is constant"
        )
    # Fourth powers of the norm occur on the way, in products of Gram matrices.
    least, most = limits.tiny**0.25, limits.max**0.25
    if not least < norm < most:
        raise ValueError(
            f"X has entries too large or too small for {limits.dtype}: its norm is {norm:.2g}, "
            f"expected {least:.0e} to {most:.0e}; rescale it"
        )


def check_values(data: TensorData, loss: Loss, *, name: str = "X", argument: str = "loss") -> None:
    """Raise unless the loss can take all observed entries; the message names the first other.

    Args:
        data: The data.
        loss: The loss.
        name: What the data is called.
        argument: What the argument of the loss is called.
    """
    wrong = ~(loss.accepts(data.values) | data.values.isnan())
    if not wrong.any():
        return
    raise ValueError(
        f"{name} has {first_of(data, wrong)}, but {argument}={loss.name!r} is for "
        f"{loss.allowed}; {loss.remedy.replace('loss=', f'{argument}=')}"
    )
