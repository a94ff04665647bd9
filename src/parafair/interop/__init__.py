"""Results for other libraries: labeled factors for xarray and tlviz, encoders for plain NumPy."""

from __future__ import annotations

from parafair.interop.encoder_export import export_encoder
from parafair.interop.labeled import factors_to_xarray

__all__ = ["export_encoder", "factors_to_xarray"]
