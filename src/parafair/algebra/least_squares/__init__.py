"""The loss as a function of one factor, with the others fixed."""

from __future__ import annotations

from parafair.algebra.least_squares.base import Block, Squares, squared_block
from parafair.algebra.least_squares.multilinear import MultilinearBlock
from parafair.algebra.least_squares.non_negative import NonNegativeBlock
from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock

__all__ = [
    "Block",
    "MultilinearBlock",
    "NonNegativeBlock",
    "RowwiseBlock",
    "SharedBlock",
    "Squares",
    "squared_block",
]
