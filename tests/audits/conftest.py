import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Small networks are slowed down by threads, all the more on busy machines."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
