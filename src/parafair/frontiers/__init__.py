"""The trade-off between residual and leakage: many fits in one batch."""

from parafair.frontiers.folder import load
from parafair.frontiers.point import Point
from parafair.frontiers.result import Frontier
from parafair.frontiers.run import frontier

__all__ = ["Frontier", "Point", "frontier", "load"]
