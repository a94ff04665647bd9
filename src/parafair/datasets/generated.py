"""What generated tensors have in common."""

from __future__ import annotations

from math import prod

from parafair.arguments import items, whole_number
from parafair.data.frames import check_memory


def check_generated(seed: int, shape: tuple[int, ...], rank: int) -> tuple[tuple[int, ...], int]:
    """Return shape and rank of a tensor to generate; raise unless it can be generated."""
    whole_number("seed", seed, least=0)
    rank = whole_number("rank", rank)
    shape = tuple(whole_number("each of shape", n) for n in items("shape", shape, "sizes of modes"))
    if len(shape) < 2 or shape[0] < 2:
        raise ValueError(
            f"shape must have at least 2 modes and at least 2 people in the first, got {shape}"
        )
    needed = 8 * rank * (prod(shape) + sum(shape))
    check_memory(needed, f"a tensor of shape {shape}", "choose a smaller shape or rank")
    return shape, rank
