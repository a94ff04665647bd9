import numpy as np
import pytest
import torch

from parafair import FairCP
from parafair.solvers import LBFGS
from parafair.tiles import MOST_HALVINGS
from tests.reference.kinds import draw, mean_shift

QUICK = {"strength": 10.0, "tol": 1e-2, "n_init": 1}


def full_steps(monkeypatch, times):
    """Let so many steps find the GPU full."""
    whole, tried = LBFGS.step, []

    def step(self, problem, state):
        tried.append(1)
        if len(tried) <= times:
            raise torch.cuda.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 4 GiB in all"
            )
        return whole(self, problem, state)

    monkeypatch.setattr(LBFGS, "step", step)
    return tried


def test_a_fit_goes_on_in_smaller_tiles(monkeypatch):
    tensor, groups, rank = draw(mean_shift, 0, 40)
    expected = FairCP(rank, **QUICK).fit(tensor, sensitive_features=groups)
    full_steps(monkeypatch, 2)
    found = FairCP(rank, **QUICK).fit(tensor, sensitive_features=groups)
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)


def test_a_fit_that_does_not_fit_says_what_it_needs(monkeypatch):
    tensor, groups, rank = draw(mean_shift, 0, 40)
    tried = full_steps(monkeypatch, 1000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * 10**9)
    message = r"X does not fit on the GPU.*: this call needs at least 5.15 GB there, .* lower rank"
    with pytest.raises(MemoryError, match=message):
        FairCP(rank, **QUICK).fit(tensor, sensitive_features=groups)
    assert len(tried) == MOST_HALVINGS + 1
