"""Each of several processes keeps the entries of its own people, and nothing of all people."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData
from parafair.data.handed_over import HandedOver
from parafair.losses import LOSSES
from parafair.losses.deviance import best_constant, null_deviance
from parafair.penalties import Invariant
from parafair.storage import read_tensor
from parafair.team import team_of

from ..processes import together

PEOPLE, SHAPE = 1200, (1200, 6, 5)
GROUPS = np.array(["a", "b"])[np.arange(PEOPLE) % 2]
ROOT = Path(__file__).parents[2]
RANDOM = np.random.default_rng(0)
COMPLETE = np.einsum("ir,jr,kr->ijk", *(RANDOM.normal(size=(n, 2)) for n in SHAPE))
COMPLETE += 0.3 * RANDOM.normal(size=SHAPE)
MASKED = np.where(RANDOM.random(SHAPE) < 0.3, np.nan, COMPLETE)
MASKED[[7, 900]] = np.nan  # people without entries


KINDS = ("complete", "masked", "second mode", "sparse")


def data_of(kind):
    """The same people as an array, with missing entries, in another mode, or as a list."""
    if kind == "complete":
        return COMPLETE, 0
    if kind == "sparse":
        return TensorData.from_array(MASKED).to_sparse(), 0
    return (MASKED, 0) if kind == "masked" else (np.ascontiguousarray(MASKED.swapaxes(0, 1)), 1)


def storages():
    """The memory of all tensors of this process, by address."""
    gc.collect()
    tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    dense = [each for each in tensors if each.is_cpu and each.layout is torch.strided]
    return {each.untyped_storage().data_ptr(): each.untyped_storage() for each in dense}


def given_places(given):
    """Addresses of the data as it was given."""
    if not isinstance(given, TensorData):
        return {torch.from_numpy(given).untyped_storage().data_ptr()}
    return {part.untyped_storage().data_ptr() for part in (given.values, given.indices)}


@pytest.mark.filterwarnings("ignore:no observed entries")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "masked")) for kind in KINDS]
)
def test_a_process_holds_no_tensor_of_all_entries_while_it_fits(tmp_path, kind):
    data, mode = data_of(kind)

    def work(group):
        sizes, before = [], given_places(data) | set(storages())

        def look(*_):
            found = (one.nbytes() for place, one in storages().items() if place not in before)
            sizes.append(max(found))

        model = FairCP(2, method="hsic", mode=mode, ridge=1.0, max_iter=1, tol=0, center=True)
        model.fit(
            data,
            sensitive_features=GROUPS,
            process_group=group,
            on_iteration=look,
        )
        return max(sizes), model.training_.rated

    # Positions of entries are three numbers where an entry is one.
    whole = COMPLETE.nbytes * (3 if kind == "sparse" else 1)
    for size, rated in together(tmp_path, 2, work):
        assert 0.3 * COMPLETE.nbytes < size <= 0.53 * whole
        assert rated is None


@pytest.mark.filterwarnings("ignore:no observed entries")
def test_a_process_drops_the_entries_of_others_if_data_is_handed_over(tmp_path):
    def work(group):
        data = TensorData.from_array(MASKED).to_sparse()
        kept = weakref.ref(data.values), weakref.ref(data.indices)
        given, alive = HandedOver(data), []
        del data

        def look(*_):
            alive.append(any(part() is not None for part in kept))

        model = FairCP(2, method="hsic", ridge=1.0, max_iter=1, tol=0)
        model.fit(given, sensitive_features=GROUPS, process_group=group, on_iteration=look)
        return alive

    assert together(tmp_path, 2, work) == [[False], [False]]


def fits(group, settings, features=GROUPS):
    found = []
    for data, mode in map(data_of, KINDS):
        model = FairCP(2, mode=mode, **{"ridge": 1.0, "max_iter": 3, "tol": 0, **settings})
        model.fit(data, sensitive_features=features, process_group=group)
        training = model.training_
        found.append(
            (
                model.fit_.residual,
                [factor.numpy() for factor in model.cp_.factors],
                [training.entries, training.penalized, [*map(len, training.labels)]],
            )
        )
    return found


SETTINGS = {
    "centered": {"method": "hsic", "strength": 5.0, "center": True},
    "single precision": {"method": "none", "dtype": "float32"},
    "huber": {"method": "none", "loss": "huber", "solver": "lbfgs", "center": True},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no observed entries", "ignore::parafair.ConvergenceWarning")
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", [*SETTINGS, "invariant"])
def test_the_fit_is_that_of_one_process(tmp_path, name, size):
    own = {"method": Invariant(5.0, chunk_size=50), "noise": 0.1, "max_iter": 2}
    settings = SETTINGS.get(name, own)
    # Chunks are compared in single precision.
    digits = 1e-3 if name in ("single precision", "invariant") else 1e-8
    expected = fits(None, settings)
    for process in together(tmp_path, size, lambda group: fits(group, settings)):
        for one, other in zip(process, expected, strict=True):
            assert one[0] == pytest.approx(other[0], rel=digits)
            for found, wanted in zip(one[1], other[1], strict=True):
                np.testing.assert_allclose(found, wanted, rtol=digits, atol=digits)
            np.testing.assert_equal(one[2], other[2])


def test_the_best_constant_of_all_processes_is_that_of_one(tmp_path):
    counts = torch.from_numpy(np.random.default_rng(1).poisson(2.0, 60) + 1.0)
    samples = {"bernoulli": counts % 2, "bernoulli-poisson": counts % 2, "binomial": counts % 2}

    def work(group):
        rank = 0 if group is None else torch.distributed.get_rank(group)
        own = slice(None) if group is None else slice(25 * rank, 25 + 35 * rank)
        team, found = team_of(group), []
        for name, loss in LOSSES.items():
            values = samples.get(name, counts)[own]
            found += [best_constant(loss, values, team), null_deviance(loss, values, team=team)]
        return found

    expected = work(None)
    for found in together(tmp_path, 2, work):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_too_many_rows_of_features_are_refused(tmp_path):
    def work(group):
        try:
            fits(group, {"method": "hsic"}, features=[*GROUPS, "a"])
        except ValueError as error:
            return str(error)

    for message in together(tmp_path, 2, work):
        assert "sensitive_features has 1201 rows but mode 0 of the tensor has 1200" in message


def test_a_file_can_stay_where_it_is(tmp_path):
    np.save(tmp_path / "x.npy", MASKED)
    mapped = read_tensor(tmp_path / "x.npy", mapped=True)
    assert isinstance(mapped, np.memmap)
    values = TensorData.from_array(mapped).values
    assert values.data_ptr() == mapped.__array_interface__["data"][0]


PROBE = """
import json, re, sys, threading, time
from pathlib import Path
import numpy as np
from torch import distributed
import torch
from parafair import FairCP

def memory():
    # Pages of the file are those of the cache, which all processes share.
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

distributed.init_process_group("gloo")
X = np.load(sys.argv[1], mmap_mode="c")
# Loads all that a fit needs.
few = X[:100].copy()
FairCP(4, method="none", ridge=1.0, max_iter=2, tol=0).fit(few)
before = peak = memory()
ended = False

def watch():
    global peak
    while not ended:
        peak = max(peak, memory())
        time.sleep(0.002)

thread = threading.Thread(target=watch)
thread.start()
model = FairCP(4, method="none", ridge=1.0, max_iter=2, tol=0)
model.fit(X, process_group=distributed.group.WORLD)
ended = True
thread.join()
size, rank = distributed.get_world_size(), distributed.get_rank()
Path(sys.argv[2], f"{size}-{rank}.json").write_text(json.dumps(peak - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_peak_memory_of_a_process_is_that_of_its_share(tmp_path, share):
    random = np.random.default_rng(0)
    tensor = random.standard_normal((200_000, 20, 10))
    tensor[random.random(tensor.shape) < share] = np.nan
    np.save(tmp_path / "x.npy", tensor)
    (tmp_path / "probe.py").write_text(PROBE)
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    for size in (1, 2):
        arguments = [str(size), str(tmp_path / "probe.py"), str(tmp_path / "x.npy"), str(tmp_path)]
        done = subprocess.run(
            [sys.executable, *start, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr
    peaks = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    # A process alone uses complete entries where they are, in the file, and makes copies of others.
    most = 0.6 * peaks["1-0"] if share else 0.5 * tensor.nbytes + peaks["1-0"] + 50e6
    for name in ("2-0", "2-1"):
        assert peaks[name] < most, peaks
