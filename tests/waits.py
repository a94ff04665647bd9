"""Counting operations after which a device has to be waited for."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Their results have sizes, or are numbers, that the next operation needs.
WAITS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_consecutive",
    "unique_dim",
    "equal",
}


class Waits(TorchDispatchMode):
    """Counts such operations, by name, while it is entered."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        by_mask = name == "index" and any(
            place is not None and place.dtype == torch.bool for place in args[1]
        )
        if name in WAITS or by_mask:
            self.found[name] += 1
        return function(*args, **(kwargs or {}))
