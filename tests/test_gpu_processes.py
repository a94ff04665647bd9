"""Process groups whose processes compute on a GPU; skipped where there is none."""

import numpy as np
import pytest
import torch

from .gpu_processes import METHODS, GroupFit
from .processes import together

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
GROUPS = {
    "one by nccl": ("nccl", 1),
    "two by gloo": ("gloo", 2),
    "all by nccl": ("nccl", torch.cuda.device_count()),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_processes_on_gpus_find_the_fit_of_one(tmp_path, group, method, missing):
    backend, size = GROUPS[group]
    if backend == "nccl" and not torch.distributed.is_nccl_available():
        pytest.skip("no nccl")
    if group == "all by nccl" and size < 2:
        pytest.skip("one GPU")
    work = GroupFit(method, missing)
    residual, embedding, _, _ = work(None)
    found = together(tmp_path, size, work, 300, backend=backend, start="spawn")
    # Chunks are compared in single precision, and a fit amplifies rounding.
    digits = 1e-3 if method == "invariant" else 1e-8
    for each in found:
        assert not isinstance(each, BaseException), each
        assert each[3] > 0
        assert each[0] == pytest.approx(residual, rel=digits)
        if method != "invariant":
            np.testing.assert_allclose(each[1], embedding, rtol=digits, atol=digits)
