import threading

import pytest
import torch

from parafair.threads import side_by_side

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def started_later():
    """Return the number of threads of a thread that starts now."""
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_results_are_in_order_and_each_item_has_one_thread_if_there_are_several(threads):
    found = side_by_side(lambda item: (item * item, torch.get_num_threads()), range(7), CPU)
    assert [value for value, _ in found] == [item * item for item in range(7)]
    assert {own for _, own in found} == {1}


def test_numbers_of_threads_are_left_as_they_were(threads):
    side_by_side(lambda item: torch.ones(50, 50) @ torch.ones(50, 50), range(5), CPU)
    assert torch.get_num_threads() == threads
    assert started_later() == threads


def test_an_error_of_an_item_is_that_of_the_call(threads):
    def fail(item):
        raise ValueError(f"nothing to compute for item {item}")

    with pytest.raises(ValueError, match="nothing to compute for item 0"):
        side_by_side(fail, range(3), CPU)
    assert torch.get_num_threads() == threads


def test_nothing_is_computed_for_no_items(threads):
    assert side_by_side(str, [], CPU) == []
