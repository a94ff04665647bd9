import subprocess
import sys

import pytest
import torch

from parafair.algebra.adam import Adam


def test_steps_are_those_of_pytorch():
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator) for shape in ((3, 4), (4, 1))]
    theirs = [each.clone() for each in ours]
    for fused in (False, True):
        own = Adam(ours, betas=(0.9, 0.99), fused=fused)
        other = torch.optim.Adam(theirs, betas=(0.9, 0.99), fused=fused)
        for rate in (0.1, 0.05, 0.02):
            gradients = [torch.randn(each.shape, generator=generator) for each in ours]
            own.step(gradients, rate)
            for each, gradient in zip(theirs, gradients, strict=True):
                each.grad = gradient
            other.param_groups[0]["lr"] = rate
            other.step()
            for one, two in zip(ours, theirs, strict=True):
                torch.testing.assert_close(one, two, rtol=0, atol=0)


@pytest.mark.slow
def test_an_audit_does_not_import_the_compiler_of_pytorch():
    # It takes more than a second.
    program = """
import sys
import numpy as np
from parafair import audit
rows = np.random.default_rng(0).normal(size=(30, 2))
audit(rows, sensitive_features=np.arange(30) % 2, attackers=["network"], permutations=1)
print("torch._dynamo" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (found.stdout.strip(), found.stderr) == ("False", "")
