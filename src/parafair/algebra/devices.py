"""Sizes that depend on the device: how much to compute at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def by_device(sizes: Mapping[str, int], tensor: Tensor) -> int:
    """Return the size for a tensor's device; devices without a size get that of the CPU.

    Args:
        sizes: A size for each type of device, at least for "cpu".
        tensor: A tensor on the device.
    """
    return sizes.get(tensor.device.type, sizes["cpu"])
