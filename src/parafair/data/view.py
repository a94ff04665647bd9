"""How data looks in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.data.labels import preview
from parafair.display import Cell, Html, bar, histogram, table

if TYPE_CHECKING:
    from parafair.data.sensitive import SensitiveFeatures
    from parafair.data.tensor_data import TensorData

# Entries that are drawn, bars of a histogram, and groups that are listed.
MOST_ENTRIES, BARS, MOST_GROUPS = 100_000, 24, 12


def tensor_parts(data: TensorData) -> list[Html]:
    """Return the modes of a tensor and the distribution of its entries, if they are in memory."""
    modes: list[list[Cell]] = [
        [name, size, preview(labels[:5].tolist())]
        for name, size, labels in zip(data.modes, data.shape, data.labels, strict=True)
    ]
    if data.is_streamed or not len(data.entries):
        return [table(modes, header=["mode", "size", "labels"])]
    entries = data.entries.detach()
    drawn = entries[:: len(entries) // MOST_ENTRIES + 1].double().cpu().numpy()
    low, high = float(entries.min()), float(entries.max())
    counts = _count_bars(drawn, low, high)
    values: list[list[Cell]] = [
        ["smallest", low],
        ["mean", float(entries.mean(dtype=torch.float64))],
        ["largest", high],
        ["distribution", histogram(counts, f"histogram of the entries from {low:g} to {high:g}")],
    ]
    return [table(modes, header=["mode", "size", "labels"]), table(values)]


def feature_parts(features: SensitiveFeatures) -> list[Html]:
    """Return the groups of each feature with their sizes, or the distribution of its numbers."""
    found = []
    for column in features.columns:
        values = column.values[column.has_value]
        if column.kind == "categorical":
            sizes = np.bincount(values, minlength=len(column.categories)).tolist()
            pairs = list(zip(column.categories, sizes, strict=True))
            rows = [
                [group, size, bar(size / max(len(values), 1), f"{size} of {len(values)} people")]
                for group, size in pairs[:MOST_GROUPS]
            ]
            if len(pairs) > MOST_GROUPS:
                rest = len(pairs) - MOST_GROUPS
                rows.append([f"{rest} more groups", sum(sizes[MOST_GROUPS:]), ""])
            found.append(table(rows, header=[column.name, "people", ""]))
        elif not len(values):  # of whom nobody has this feature
            found.append(table([["people", 0]], header=[column.name, ""]))
        else:
            low, high = float(np.min(values)), float(np.max(values))
            counts = _count_bars(values, low, high)
            drawn = histogram(counts, f"histogram from {low:g} to {high:g}")
            rows = [["people", len(values)], ["from", low], ["to", high], ["distribution", drawn]]
            found.append(table(rows, header=[column.name, ""]))
    return found


def _count_bars(values: NDArray[np.floating[Any]], low: float, high: float) -> list[int]:
    """Return how many values are in each bar, for any range, however wide or narrow."""
    # In these units the largest is about 1, so that differences neither overflow nor vanish.
    power = np.frexp(max(abs(low), abs(high)))[1]
    numbers, low, high = (np.ldexp(each, -power) for each in (values.astype(float), low, high))
    bars = np.minimum(((numbers - low) / ((high - low) or 1.0) * BARS).astype(int), BARS - 1)
    counts: list[int] = np.bincount(bars, minlength=BARS).tolist()
    return counts
