"""Sizes that depend on the device, such as how much to compute at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def by_device(sizes: Mapping[str, int], tensor: Tensor) -> int:
    """Return the size for a tensor's device; other devices use the size for the CPU.

    Args:
        sizes: Size by device type; must have "cpu".
        tensor: A tensor on the device.
    """
    return sizes.get(tensor.device.type, sizes["cpu"])
