"""Device and precision as a caller gives them: the one place that reads them."""

from __future__ import annotations

import torch

from parafair.errors import shown, unknown_choice

DTYPES = {"float32": torch.float32, "float64": torch.float64}
# Numbers of these types are computed in float32, all others in float64.
SINGLE = (torch.float32, torch.float16, torch.bfloat16)


def resolve_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    """Return a precision by its name, or as it is given."""
    found = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if found is not None and not (isinstance(found, torch.dtype) and found in DTYPES.values()):
        raise unknown_choice("dtype", dtype, DTYPES)
    return found


def precision_for(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which numbers of a type are computed: float32 from half precision."""
    return torch.float32 if dtype in SINGLE else torch.float64


def check_device(device: str | torch.device | None) -> None:
    """Raise unless tensors with values can be made there; None is where the data is."""
    if device is None:
        return
    try:
        if not isinstance(device, (str, torch.device)):
            raise TypeError("a device is given by its name")
        torch.empty(0, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={shown(device)} cannot be used here ({reason}); use 'cpu', or None for where "
            "the data is"
        ) from error
