"""Data sets: a tensor, the sensitive features of one mode, and where they come from.

Data that is not generated comes from a folder of yours (the argument `folder`, or the environment
variable PARAFAIR_DATA), or is downloaded once and kept in a cache.
"""

from __future__ import annotations

from parafair.datasets.base import Dataset, Entry
from parafair.datasets.contraceptive import ENTRY as _CONTRACEPTIVE
from parafair.datasets.contraceptive import contraceptive
from parafair.datasets.marks import ENTRY as _MARKS
from parafair.datasets.marks import marks
from parafair.datasets.oulad import ENTRY as _OULAD
from parafair.datasets.oulad import oulad
from parafair.datasets.synthetic import ENTRY as _SYNTHETIC
from parafair.datasets.synthetic import synthetic

__all__ = ["DATASETS", "Dataset", "Entry", "contraceptive", "marks", "oulad", "synthetic"]

# Every data set by name.
DATASETS = {
    "synthetic": _SYNTHETIC,
    "marks": _MARKS,
    "contraceptive": _CONTRACEPTIVE,
    "oulad": _OULAD,
}
