"""Arrays of xarray: the one place where they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray


def load_xarray(for_what: str) -> Any:
    """Return the package xarray; raise if it is not installed.

    Args:
        for_what: What needs it, for the message.
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError(
            f"{for_what} needs xarray; install it with: pip install 'parafair[xarray]'"
        ) from error
    return xarray


def data_array(
    values: NDArray[Any], modes: Sequence[str], labels: Sequence[NDArray[Any]], *, for_what: str
) -> xarray.DataArray:
    """Return values with a name and labels for each dimension, the first ones if labels are fewer.

    Args:
        values: The values.
        modes: Names of the dimensions.
        labels: Labels of the first dimensions.
        for_what: What needs xarray, for the message.
    """
    coords = dict(zip(modes, labels, strict=False))
    return load_xarray(for_what).DataArray(values, dims=tuple(modes), coords=coords)  # type: ignore[no-any-return]
