import pytest
import torch

from parafair.algebra import devices

GPU = torch.device("cuda")


@pytest.mark.parametrize(
    ("found", "capability", "expected"),
    [("gcc", (9, 0), True), ("cc-13", (7, 0), True), (None, (9, 0), False), ("gcc", (6, 1), False)],
)
def test_kernels_need_a_compiler_and_a_gpu_that_triton_knows(
    monkeypatch, found, capability, expected
):
    monkeypatch.setenv("CC", "cc-13")
    monkeypatch.setattr(devices, "which", lambda name: name if name == found else None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    devices.can_compile.cache_clear()
    assert devices.can_compile(GPU) is expected
    devices.can_compile.cache_clear()
