"""Data sets: a tensor, the sensitive features of one mode, and where they come from.

Data that is not generated comes from a local folder (the argument `folder`, or the environment
variable PARAFAIR_DATA), or is downloaded once and kept in a cache, if its license allows it.
"""

from __future__ import annotations

# A data set is registered when its file is imported: one line for each.
from parafair.datasets.adult import adult as adult
from parafair.datasets.base import DATASETS as DATASETS
from parafair.datasets.base import Dataset as Dataset
from parafair.datasets.base import Entry as Entry
from parafair.datasets.base import Option as Option
from parafair.datasets.base import register as register
from parafair.datasets.contraceptive import contraceptive as contraceptive
from parafair.datasets.discrete import counts as counts
from parafair.datasets.discrete import events as events
from parafair.datasets.marks import marks as marks
from parafair.datasets.movielens import movielens as movielens
from parafair.datasets.oulad import oulad as oulad
from parafair.datasets.ratings import ratings as ratings
from parafair.datasets.synthetic import synthetic as synthetic
