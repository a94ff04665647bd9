"""The whole trade-off between fit and fairness: many fits in one batch."""

from parafair.frontier.result import Frontier, Point
from parafair.frontier.run import frontier

__all__ = ["Frontier", "Point", "frontier"]
