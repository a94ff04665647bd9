"""The loss as a function of one factor, with the others fixed."""

from __future__ import annotations

from parafair.losses.base import Block, block_of
from parafair.losses.rowwise import RowwiseBlock
from parafair.losses.shared import SharedBlock

__all__ = ["Block", "RowwiseBlock", "SharedBlock", "block_of"]
