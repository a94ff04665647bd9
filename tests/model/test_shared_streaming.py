"""Several processes fit streamed data together, and each has its share alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from parafair import FairCP, Problem, SensitiveFeatures, TensorData, sort_parquet
from parafair.data.parquet import Part
from parafair.model.preparation import Settings
from parafair.model.streaming import MemoryPlan
from parafair.penalties import Invariant
from parafair.solvers.sharing import share_problem

from ..processes import together

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
MODES, RANK, PEOPLE = ("who", "what", "when"), 2, 1300
GROUPS = np.array(["a", "b"])[np.arange(PEOPLE) % 2]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same data in memory and streamed, in row groups of about 40 people."""
    folder = tmp_path_factory.mktemp("shared")
    random = np.random.default_rng(0)
    factors = [random.standard_normal((n, RANK)) for n in (PEOPLE, 6, 5)]
    factors[0] += (GROUPS == "b")[:, None]
    full = np.einsum("ir,jr,kr->ijk", *factors) + 0.3 * random.standard_normal((PEOPLE, 6, 5))
    cells = np.argwhere(random.random(full.shape) < 0.4)
    columns = dict(zip(MODES, cells.T, strict=True))
    table = pandas.DataFrame({**columns, "x": full[tuple(cells.T)]})
    table.sample(frac=1, random_state=0).to_parquet(folder / "raw.parquet", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.data.sorting.GROUP", 500)
        sort_parquet(folder / "raw.parquet", folder / "s", modes=MODES, value="x")
    streamed = TensorData.from_parquet(folder / "s").with_tile(4000)
    return TensorData.from_table(table, modes=MODES, value="x"), streamed


@pytest.fixture
def starts():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, RANK, generator=generator, dtype=torch.float64) for n in (PEOPLE, 6, 5)]


def results_of(data, group, settings):
    given = {"ridge": 0.5, "max_iter": 4, "tol": 0, **settings}
    model = FairCP(RANK, **given).fit(data, sensitive_features=GROUPS, process_group=group)
    return model.fit_.residual, [factor.numpy() for factor in model.cp_.factors]


def check_equal(found, expected, digits):
    assert found[0] == pytest.approx(expected[0], rel=digits)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=digits, atol=digits)


def test_two_processes_that_stream_fit_what_one_fits_in_memory(tmp_path, both, starts):
    settings = {"method": "hsic", "strength": 5.0, "center": True, "init": starts, "max_iter": 2}
    expected = results_of(both[0], None, settings)
    for found in together(tmp_path, 2, lambda group: results_of(both[1], group, settings)):
        check_equal(found, expected, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("method", ["none", "fatr", "invariant"])
def test_processes_that_stream_fit_what_one_fits_in_memory(tmp_path, both, starts, size, method):
    # The criterion compares chunks in single precision.
    digits = 1e-4 if method == "invariant" else 1e-9
    kind = Invariant(5.0, chunk_size=50) if method == "invariant" else method
    settings = {"method": kind, "init": starts, "center": True}
    expected = results_of(both[0], None, settings)
    for found in together(tmp_path, size, lambda group: results_of(both[1], group, settings)):
        check_equal(found, expected, digits)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_processes_that_stream_select_a_ridge_and_begin_at_a_sample(
    tmp_path, both, size, monkeypatch
):
    monkeypatch.setattr("parafair.model.streaming.SAMPLE", 200)
    settings = {"method": "none", "ridge": "auto", "center": True}
    expected = results_of(both[1], None, settings)
    for found in together(tmp_path, size, lambda group: results_of(both[1], group, settings)):
        check_equal(found, expected, 1e-9)


def test_a_process_reads_the_row_groups_of_its_own_people(both, monkeypatch):
    class Second:
        rank, size, is_alone = 1, 3, False

    streamed, read = both[1], set()
    original = Part.read

    def watched(part, numbers, columns):
        read.update((part.path.name, number) for number in numbers)
        return original(part, numbers, columns)

    problem = Problem(
        streamed,
        RANK,
        penalty=Invariant(5.0, chunk_size=50),
        sensitive=SensitiveFeatures.of(GROUPS),
    )
    own = share_problem(problem, Second()).data
    monkeypatch.setattr(Part, "read", watched)
    own.observations.error_and_slopes([torch.ones(1, n, RANK).double() for n in own.shape])
    assert own.shape[0] == pytest.approx(PEOPLE / 3, abs=50)
    # Two processes read a row group where the people of one end and those of the other begin.
    assert len(read) <= 0.4 * len(streamed.source.sizes)


def test_some_people_are_streamed_like_everybody(both):
    memory, streamed = both
    places = np.sort(np.random.default_rng(1).permutation(PEOPLE)[:100])
    own, expected = streamed.only(places), memory.take(0, places)
    assert own.observed == expected.observed
    assert own.norm_squared == pytest.approx(expected.norm**2)
    for mode in range(3):
        np.testing.assert_array_equal(own.observed_per(mode), expected.observed_per(mode))
        np.testing.assert_array_equal(own.labels[mode], expected.labels[mode])
    again = own.take(0, np.arange(100))
    assert torch.equal(again.indices, expected.indices)
    assert torch.equal(again.values, expected.values)
    factors = [torch.ones(1, n, RANK, dtype=torch.float64) for n in own.shape]
    found = own.with_tile(1).observations.error_and_slopes(factors)
    wanted = expected.observations.error_and_slopes(factors)
    torch.testing.assert_close(found[0], wanted[0])
    for one, other in zip(found[1], wanted[1], strict=True):
        torch.testing.assert_close(one, other)


def test_people_without_entries_can_be_alone_in_a_tile(tmp_path):
    table = pandas.DataFrame({"who": [0, 1, 2, 2], "what": [0, 1, 0, 1], "x": [1, None, 2, 3.0]})
    table.to_parquet(tmp_path / "raw.parquet", index=False)
    data = sort_parquet(tmp_path / "raw.parquet", tmp_path / "s", modes=["who", "what"], value="x")
    nobody = data.only(np.array([1]))
    factors = [torch.ones(1, n, 1, dtype=torch.float64) for n in nobody.shape]
    error, slopes = nobody.observations.error_and_slopes(factors)
    assert not error.any()
    assert not any(slope.any() for slope in slopes)
    assert not nobody.observations.sums(factors).target(0).any()
    assert nobody.observed_per(1).tolist() == [0, 0]


def test_the_plan_is_that_of_a_share(both):
    settings = Settings.of(FairCP(RANK))
    whole, half = (MemoryPlan.of(settings, both[1], RANK, share=share) for share in (1.0, 0.5))
    others = 82 * (6 + 5) * RANK * 8
    assert whole.rows - others == 2 * (half.rows - others)
    assert half.people - whole.people == 8 * PEOPLE * RANK * 8


def test_too_little_memory_is_refused_in_all_processes(tmp_path, both):
    def work(group):
        model = FairCP(RANK, method="none")
        try:
            model.fit(both[1].with_memory(10**8), process_group=group)
        except MemoryError as error:
            return str(error)

    for message in together(tmp_path, 2, work):
        assert "memory=0.10 GB is too little for this fit, which needs 0.6" in message
        assert "GB in each process: " in message


PROBE = """
import json, re, sys
from pathlib import Path
from torch import distributed
from benchmarks.simulated import SimulatedSource
from parafair import FairCP
from parafair.data.streamed import StreamedData
from parafair.model.preparation import Settings
from parafair.model.streaming import MemoryPlan

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

distributed.init_process_group("gloo")
source = SimulatedSource(120_000, entries=10, rank=8)
data = StreamedData(source).with_tile(100_000)
# So many iterations that all earlier steps are there.
model = FairCP(8, method="none", solver="lbfgs", ridge=1.0, max_iter=12, tol=0.0, n_init=1)
size = distributed.get_world_size()
plan = MemoryPlan.of(Settings.of(model), data, 8, share=1 / size)
before = peak()
model.fit(data, process_group=distributed.group.WORLD)
row = {"before": before, "peak": peak(), "plan": plan.least + 440 * data.tile}
Path(sys.argv[1], f"{size}-{distributed.get_rank()}.json").write_text(json.dumps(row))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_process_holds_more_than_its_share(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    for size in (1, 2):
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
        done = subprocess.run(
            [sys.executable, *start, str(tmp_path / "probe.py"), str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr
    rows = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert all(row["peak"] <= row["plan"] for row in rows.values())
    alone = rows["1-0"]["peak"] - rows["1-0"]["before"]
    for name in ("2-0", "2-1"):
        # Half of what grows with the people, and the embedding of everybody at the end.
        assert rows[name]["peak"] - rows[name]["before"] < 0.75 * alone
