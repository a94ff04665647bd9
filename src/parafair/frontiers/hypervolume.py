"""The hypervolume of points in the plane of residual and leakage."""

from __future__ import annotations

from collections.abc import Iterable

from parafair.arguments import items, real_number
from parafair.errors import shown


def hypervolume(points: Iterable[tuple[float, float]], worst: tuple[float, float]) -> float:
    """Return the share of the rectangle from zero to `worst` that the points dominate.

    A point dominates all points that are no better in either coordinate. Negative leakage counts
    as zero.

    Args:
        points: Residual and leakage of each fit.
        worst: The largest residual and the largest leakage of the rectangle.

    >>> hypervolume([(0.5, 0.25), (0.75, 0.0)], worst=(1.0, 0.5))
    0.375
    """
    corner = items("worst", worst, "two numbers, a residual and a leakage")
    if len(corner) != 2:
        raise ValueError(f"worst must be two numbers, a residual and a leakage, got {shown(worst)}")
    for number in corner:
        real_number("each of worst", number, above=0)
    width, height_of_all = corner
    area, last = 0.0, height_of_all
    for residual, leakage in sorted((x, max(y, 0.0)) for x, y in points):
        height = min(last, leakage)
        area += max(0.0, width - residual) * (last - height)
        last = height
    return float(area / (width * height_of_all))
