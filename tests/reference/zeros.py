"""Data whose absent entries are zeros, beside the same data stored in full."""

import torch

from parafair.data.tensor_data import TensorData
from tests.reference import losses


def pair(name, *, shape=(9, 6, 5), missing=(), seed=0):
    """Return a list whose absent entries are zeros, and the dense tensor, for a loss.

    Args:
        name: The loss.
        shape: Sizes of the modes.
        missing: Cells that are missing.
        seed: Seed of the entries.
    """
    generator = torch.Generator().manual_seed(seed + 100)
    drawn = losses.example(name, shape=shape, seed=seed)
    kept = torch.rand(shape, generator=generator, dtype=torch.float64) < 0.4
    tensor = torch.where(kept, drawn, 0.0)
    for cell in missing:
        tensor[cell] = torch.nan
    places = (tensor != 0).nonzero().T
    listed = TensorData(tensor[tuple(places)], places, shape, absent="zero")
    return listed, TensorData(tensor)
