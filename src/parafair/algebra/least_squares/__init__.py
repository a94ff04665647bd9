"""The loss as a function of one factor, with the others fixed."""

from __future__ import annotations

from parafair.algebra.least_squares.base import Block, block_of
from parafair.algebra.least_squares.rowwise import RowwiseBlock
from parafair.algebra.least_squares.shared import SharedBlock

__all__ = ["Block", "RowwiseBlock", "SharedBlock", "block_of"]
