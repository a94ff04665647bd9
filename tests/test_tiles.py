import pytest
import torch

from parafair.algebra.devices import tile_of
from parafair.tiles import MOST_HALVINGS, halvings, in_smaller_tiles, shared_tiles

SIZES = {"cpu": 64, "meta": 64}
# Stands for a GPU: it is no processor either.
ELSEWHERE, HERE = torch.empty(0, device="meta"), torch.empty(0)


def full(times):
    """A function that finds a GPU full so many times, and the tiles that it asked for."""
    seen = []

    @in_smaller_tiles
    def function(device):
        seen.append(tile_of(SIZES, device))
        if len(seen) <= times:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return len(seen)

    return function, seen


def test_a_full_gpu_computes_smaller_tiles():
    function, seen = full(2)
    assert function(ELSEWHERE) == 3
    assert seen == [64, 32, 16]


def test_tiles_of_a_processor_stay_as_they_are():
    function, seen = full(2)
    assert function(HERE) == 3
    assert seen == [64, 64, 64]


def test_smaller_tiles_last_for_a_block_and_no_longer():
    with shared_tiles():
        full(2)[0](ELSEWHERE)
        other, seen = full(0)
        other(ELSEWHERE)
        with shared_tiles():
            assert tile_of(SIZES, ELSEWHERE) == 16
    assert seen == [16]
    assert tile_of(SIZES, ELSEWHERE) == 64
    assert halvings() == 0


def test_tiles_have_at_least_one_entry():
    function, seen = full(MOST_HALVINGS)
    function(ELSEWHERE)
    assert seen[-1] == 1


def test_what_does_not_fit_in_the_smallest_tiles_fails():
    function, seen = full(100)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="Tried to allocate 2.00 GiB"):
        function(ELSEWHERE)
    assert len(seen) == MOST_HALVINGS + 1


def test_other_errors_are_not_tried_again():
    calls = []

    @in_smaller_tiles
    def wrong():
        calls.append(1)
        raise ValueError("this is no question of memory")

    with pytest.raises(ValueError, match="this is no question of memory"):
        wrong()
    assert len(calls) == 1
