"""Ranks that a decomposition can have."""

from __future__ import annotations

from math import prod

from parafair.arguments import whole_number


def check_rank(rank: int, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor of this shape can have a decomposition of this rank."""
    whole_number("rank", rank)
    most = prod(shape) // max(shape)
    if rank > most:
        raise ValueError(
            f"rank must be at most {most} for shape {shape}, got {rank}: any tensor of this shape "
            f"is a sum of {most} components; lower rank"
        )
