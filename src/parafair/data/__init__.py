"""Data at the boundary: tensors with missing entries, sensitive features, splits, centering."""

from typing import TYPE_CHECKING

from parafair.lazy import attach_modules

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = attach_modules(__name__)
