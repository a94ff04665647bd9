"""Every public call leaves the process as it found it, also in threads and after exceptions."""

import locale
import os
import random
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from parafair import (
    FairCP,
    Interrupted,
    ParafairWarning,
    audit,
    frontier,
    tune,
)
from parafair.threads import one_thread
from tests.module_calls import MODULE_CALLS, module_functions
from tests.public_calls import CALLS, GROUPS, HOLES, MODEL, QUICK, TENSOR, make, public_calls

pytest.importorskip("ot")
pytest.importorskip("matplotlib")
pandas = pytest.importorskip("pandas")

POOLS = ThreadpoolController()


def options():
    """The options of pandas that code is tempted to set, by name; some others are deprecated."""
    for group in (pandas.options.display, pandas.options.compute):
        for name in dir(group):
            value = getattr(group, name)
            if isinstance(value, (int, float, str, type(None))):
                yield name, value


def state():
    """Everything that belongs to the process, by name."""
    known = (s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))
    return {
        "warning filters": list(warnings.filters),
        "warning display": (warnings.showwarning, warnings.formatwarning),
        "numpy random state": [str(part) for part in np.random.get_state()],
        "python random state": random.getstate(),
        "torch random state": torch.random.get_rng_state().tolist(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads of torch": torch.get_num_threads(),
        "threads of libraries": [library["num_threads"] for library in POOLS.info()],
        "signal handlers": {s: signal.getsignal(s) for s in known},
        "numpy errors": np.geterr(),
        "pandas options": dict(options()),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "locale": locale.getlocale(),
        "hooks": (sys.excepthook, sys.displayhook, sys.stdout, sys.stderr),
    }


def assert_unchanged(before):
    after = state()
    changed = {name: after[name] for name in before if before[name] != after[name]}
    assert not changed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Results that calls start from."""
    return make(tmp_path_factory.mktemp("made"))


def test_every_public_call_is_in_the_table():
    assert set(CALLS) == set(public_calls())


@pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_public_call_leaves_the_process_as_it_was(name, made):
    before = state()
    CALLS[name](made)
    assert_unchanged(before)


def test_every_function_of_a_public_module_is_in_the_table():
    assert set(module_functions()) <= set(MODULE_CALLS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")
@pytest.mark.parametrize("name", MODULE_CALLS)
def test_a_function_of_a_module_leaves_the_process_as_it_was(name, made):
    before = state()
    MODULE_CALLS[name](made)
    assert_unchanged(before)


@pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")
def test_calls_in_threads_leave_the_process_as_it_was(made):
    before = state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: CALLS[name](made), ["audit", "FairCP.fit", "audit", "tune"]))
        inside = set(pool.map(lambda _: torch.get_num_threads(), range(8)))
    assert inside == {before["threads of torch"]}
    assert_unchanged(before)


def interrupt(*arguments):
    raise KeyboardInterrupt("in a callback")


BAD = {
    "audit": lambda: audit(TENSOR[:, :, 0], sensitive_features=GROUPS[:3], **QUICK),
    "fit": lambda: MODEL.fit(TENSOR, sensitive_features=GROUPS[:3]),
    "frontier": lambda: frontier(MODEL, TENSOR, sensitive_features=GROUPS, strengths=[-1.0]),
    "tune": lambda: tune(MODEL, TENSOR, grid={"rank": [0]}, sensitive_features=GROUPS),
    "interrupted audit": lambda: audit(
        TENSOR[:, :, 0], sensitive_features=GROUPS, on_progress=interrupt, **QUICK
    ),
    "interrupted fit": lambda: MODEL.fit(HOLES, sensitive_features=GROUPS, on_iteration=interrupt),
    "interrupted frontier": lambda: frontier(
        MODEL, TENSOR, sensitive_features=GROUPS, on_progress=interrupt
    ),
    "interrupted tune": lambda: tune(
        FairCP(method="none", tol=0.1), HOLES, grid={"rank": [1, 2]}, on_candidate=interrupt
    ),
}


@pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")
@pytest.mark.parametrize("name", BAD)
def test_a_call_that_fails_leaves_the_process_as_it_was(name):
    before = state()
    expected = (KeyboardInterrupt, Interrupted) if "interrupted" in name else (ValueError,)
    with pytest.raises(expected, match="in a callback|interrupted after|must|has 3 rows"):
        BAD[name]()
    assert_unchanged(before)


def test_overlapping_threads_all_get_their_numbers_back():
    """The second enters before the first leaves, and leaves after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(1) as pool:
            outer = one_thread()
            outer.__enter__()
            inner = one_thread()
            pool.submit(inner.__enter__).result()
            assert pool.submit(torch.get_num_threads).result() == 1
            outer.__exit__(None, None, None)
            assert torch.get_num_threads() == 3
            assert pool.submit(torch.get_num_threads).result() == 1
            pool.submit(inner.__exit__, None, None, None).result()
            assert pool.submit(torch.get_num_threads).result() == 3
        with one_thread(), one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_warning_of_many_fits_is_given_once_with_a_count():
    with pytest.warns(ParafairWarning, match=r"did not converge .* \(4 of 4 fits\)") as caught:
        tune(FairCP(method="none", max_iter=1, tol=1e-9), TENSOR, grid={"rank": [1, 2, 3]})
    assert len(caught) == 1
