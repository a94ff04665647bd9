"""The loss as a function of one factor, with the others fixed."""

from __future__ import annotations

from parafair.algebra.least_squares.base import LOSSES, Block, squared_block
from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock

__all__ = ["LOSSES", "Block", "RowwiseBlock", "SharedBlock", "squared_block"]
