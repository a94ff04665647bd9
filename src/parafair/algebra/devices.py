"""What depends on the device of a tensor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from shutil import which

import torch
from torch import Tensor

from parafair.tiles import halvings


def by_device(sizes: Mapping[str, int], tensor: Tensor) -> int:
    """Return the size for a tensor's device; other devices use the size for the CPU.

    Args:
        sizes: Size by device type; must have "cpu".
        tensor: A tensor on the device.
    """
    return sizes.get(tensor.device.type, sizes["cpu"])


def tile_of(sizes: Mapping[str, int], tensor: Tensor) -> int:
    """Return the size of a tile: that for the device, and less of it where a GPU was full.

    Args:
        sizes: As in `by_device`.
        tensor: A tensor on the device.
    """
    size = by_device(sizes, tensor)
    return size if tensor.device.type == "cpu" else max(1, size >> halvings())


def identity(size: int, like: Tensor) -> Tensor:
    """Return an identity matrix with the dtype and on the device of a tensor."""
    return torch.eye(size, dtype=like.dtype, device=like.device)


@cache
def can_compile(device: torch.device) -> bool:
    """Tell whether Triton can compile kernels for a CUDA device.

    It needs a C compiler, which slim containers lack, and a GPU of 2017 or later.
    """
    compilers = (os.environ.get("CC", ""), "gcc", "clang")
    return any(map(which, compilers)) and torch.cuda.get_device_capability(device) >= (7, 0)
