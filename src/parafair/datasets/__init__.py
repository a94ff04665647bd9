"""Data sets: a tensor, the sensitive features of one mode, and where they come from."""

from __future__ import annotations

from parafair.datasets.base import Dataset
from parafair.datasets.synthetic import synthetic

__all__ = ["DATASETS", "Dataset", "synthetic"]

# Every data set by name; each loader works without arguments.
DATASETS = {"synthetic": synthetic}
