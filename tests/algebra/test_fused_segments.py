"""The kernels of a CUDA device, run on the CPU by Triton's interpreter."""

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")
if torch.cuda.is_available():
    pytest.skip("test_gpu.py compares the compiled kernels", allow_module_level=True)

COMPARE = """
import torch
from parafair.algebra import fused_segments, segments
from parafair.algebra.segments import Segments
from parafair.testing import example_rows

fused_segments.NUMBERS = 64  # several tiles, the last of which is not full
for shape in ((9, 5), (9, 5, 4), (3, 4, 2, 5)):
    for rank, length in ((1, 2), (3, 8), (16, 4)):
        segments.SHORTEST = length
        generator = torch.Generator().manual_seed(rank)
        indices = (torch.rand(shape, generator=generator) < 0.5).nonzero().mT
        indices = indices[:, indices[0] != 1]  # a row without entries
        values = torch.randn(indices.shape[1], generator=generator, dtype=torch.float64)
        factors = [torch.stack([example_rows(n, rank, seed=s) for s in (n, 50)]) for n in shape]
        for mode in range(len(shape)):
            own = Segments.of(indices, values, shape=shape, mode=mode)
            torch.testing.assert_close(fused_segments.target(own, factors), own.target(factors))
            found, expected = fused_segments.errors(own, factors), own.errors(factors)
            torch.testing.assert_close(found[0], expected[0])
            torch.testing.assert_close(found[1], expected[1])
"""


@pytest.mark.slow
def test_the_kernels_compute_the_sums_of_plain_pytorch():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPARE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert not done.returncode, done.stderr
