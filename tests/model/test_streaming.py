"""A fit to streamed data is the fit to the same data in memory, within its memory."""

import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from parafair import FairCP, FairTucker, TensorData, sort_parquet
from parafair.errors import Interrupted
from parafair.model.marks import Marks
from parafair.model.preparation import Settings
from parafair.model.streaming import MemoryPlan
from parafair.solvers import Status, decompose_plain

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
MODES, RANK = ("who", "what", "when"), 2
GROUPS = np.arange(80) % 2


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same data in memory and streamed in several tiles."""
    folder = tmp_path_factory.mktemp("streamed")
    random = np.random.default_rng(0)
    factors = [random.standard_normal((n, RANK)) for n in (80, 6, 5)]
    factors[0] += GROUPS[:, None]
    full = np.einsum("ir,jr,kr->ijk", *factors) + 0.3 * random.standard_normal((80, 6, 5))
    cells = np.argwhere(random.random(full.shape) < 0.5)
    columns = dict(zip(MODES, cells.T, strict=True))
    table = pandas.DataFrame({**columns, "x": full[tuple(cells.T)]})
    table.sample(frac=1, random_state=0).to_parquet(folder / "raw.parquet", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.data.sorting.GROUP", 100)
        sort_parquet(folder / "raw.parquet", folder / "s", modes=MODES, value="x")
    streamed = TensorData.from_parquet(folder / "s").with_tile(300)
    assert len(streamed.ranges) > 3
    return TensorData.from_table(table, modes=MODES, value="x"), streamed


def test_marks_equal_those_in_memory(both):
    memory, streamed = (Marks.of(data, 0, "secret") for data in both)
    np.testing.assert_array_equal(streamed.bits, memory.bits)
    np.testing.assert_array_equal(streamed.words, memory.words)
    words = memory.words_of(both[1].take(0, range(9)), 0, zeros=False)
    assert (memory.count(words), len(words)) == (9, 9)


@pytest.fixture
def starts():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, RANK, generator=generator, dtype=torch.float64) for n in (80, 6, 5)]


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "none"},
        {"method": "none", "center": True, "solver": "lbfgs"},
        {"method": "hsic", "strength": 5.0},
        {"method": "invariant", "strength": 5.0, "center": True},
        {"method": "correlation-removal"},
    ],
    ids=str,
)
def test_a_fit_equals_the_fit_in_memory(both, starts, settings):
    # Few iterations: rounding errors of sums in another order grow with every one.
    found, expected = (
        FairCP(RANK, ridge=0.5, init=starts, max_iter=5, tol=0, **settings).fit(
            data, sensitive_features=GROUPS
        )
        for data in reversed(both)
    )
    assert found.reconstruction_err_ == pytest.approx(expected.reconstruction_err_, rel=1e-9)
    for own, other in zip(found.cp_.factors, expected.cp_.factors, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["none", "invariant"])
def test_an_interrupted_start_has_rows_for_everybody(both, method, monkeypatch):
    def interrupt(few, **settings):
        return decompose_plain(few, **{**settings, "on_iteration": stop})

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("parafair.model.streaming.SAMPLE", 40)
    monkeypatch.setattr("parafair.model.streaming.decompose_plain", interrupt)
    model = FairCP(RANK, method=method, ridge=0.5)
    with pytest.raises(Interrupted, match="the embedding is that of a plain"):
        model.fit(both[1], sensitive_features=GROUPS)
    assert model.embedding_.shape == (80, RANK)
    assert model.fit_.status is Status.INTERRUPTED


@pytest.mark.slow
def test_it_begins_at_a_sample_and_selects_a_ridge(both):
    # With fewer people than a sample has, these are the fits of everybody.
    found, expected = (
        FairCP(RANK, strength=5.0).fit(data, sensitive_features=GROUPS) for data in reversed(both)
    )
    assert found.ridge_ == expected.ridge_
    assert found.fit_.residual == pytest.approx(expected.fit_.residual, rel=1e-3)


@pytest.mark.slow
def test_a_strength_is_selected_as_in_memory(both):
    found, expected = (
        FairCP(RANK, strength="auto", ridge=0.5, n_init=1).fit(data, sensitive_features=GROUPS)
        for data in reversed(both)
    )
    assert found.selection_.strength == expected.selection_.strength
    assert found.selection_.passed == expected.selection_.passed
    assert found.fit_.residual == pytest.approx(expected.fit_.residual, rel=1e-3)


def test_a_model_is_saved_and_predicts_and_embeds_parts(both, tmp_path):
    memory, streamed = both
    model = FairCP(RANK, method="none", ridge=0.5, max_iter=5, tol=0).fit(streamed)
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(memory), model.predict(memory))
    rows = np.concatenate([loaded.transform(part) for part in streamed.parts()])
    np.testing.assert_allclose(rows, loaded.transform(memory), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="does not support side information"):
        FairCP(RANK, method="none").fit(streamed, side=np.zeros((80, 2)))
    for call in (loaded.transform, loaded.predict, loaded.score):
        with pytest.raises(ValueError, match=r"go through X\.parts"):
            call(streamed)


def test_recommendations_leave_out_the_entries_that_are_streamed(both, tmp_path):
    memory, streamed = both
    model = FairCP(RANK, method="none", ridge=0.5, center=True, max_iter=5, tol=0).fit(streamed)
    expected = model.recommend([3, 0], 2, exclude=memory)
    pickle.loads(pickle.dumps(model))
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    for found in (model.recommend([3, 0], 2), loaded.recommend([3, 0], 2, exclude=streamed)):
        pandas.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
    with pytest.raises(ValueError, match=r"was loaded .* TensorData\.from_parquet"):
        loaded.recommend(0, 2)


REFUSED = {
    "loss='poisson'": (FairCP, {"loss": "poisson"}),
    "method='fair-pca'": (FairCP, {"method": "fair-pca"}),
    "method='mean-matching'": (FairCP, {"method": "mean-matching"}),
    "method='transport'": (FairCP, {"method": "transport"}),
    "encoder='linear'": (FairCP, {"encoder": "linear"}),
    "non_negative=True": (FairCP, {"non_negative": True}),
    "mode 'what'; people are the first mode": (FairCP, {"mode": "what", "method": "none"}),
    "init='svd'": (FairCP, {"init": "svd", "method": "none"}),
    "FairTucker": (FairTucker, {"method": "none"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_streaming_does_not_support_is_refused(both, what):
    kind, settings = REFUSED[what]
    features = None if settings.get("method") == "none" else GROUPS
    rank = RANK if kind is FairCP else (RANK,) * 3
    with pytest.raises(ValueError, match=f"streamed data does not support {re.escape(what)};"):
        kind(rank, **settings).fit(both[1], sensitive_features=features)


def test_too_little_memory_is_refused_with_the_memory_needed(both):
    model = FairCP(RANK, method="none")
    plan = MemoryPlan.of(Settings.of(model), both[1], RANK)
    needed = f"{plan.least / 1e9:.2f}"
    with pytest.raises(MemoryError, match=rf"memory=0\.10 GB is too little .* needs {needed} GB"):
        model.fit(both[1].with_memory(10**8))
    model.set_params(max_iter=1, tol=0).fit(both[1].with_memory(plan.least))


def test_memory_sets_the_size_of_a_tile(both):
    plan = MemoryPlan.of(Settings.of(FairCP(RANK)), both[1], RANK)
    assert plan.tile(plan.least) >= both[1].source.sizes.max()
    assert plan.tile(plan.least + 10**9) - plan.tile(plan.least) == pytest.approx(2.3e6, rel=0.05)


PROBE = """
import json, re, sys
from pathlib import Path
from benchmarks.scale import one_fit
row = one_fit(json.loads(sys.argv[1]))
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps({**row, "peak MB": int(peak[1]) // 1000}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("method", "people"), [("none", 300_000), ("invariant", 100_000)])
def test_peak_memory_is_within_the_bound(tmp_path, method, people):
    settings = {
        "source": "generated",
        "people": people,
        "others": [20, 10],
        "entries": 20,
        "rank": 4,
        "method": method,
        "memory": "4GB",
        "dtype": "float64",
        "device": "cpu",
        "max_iter": 3,
        "folder": None,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE, json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["peak MB"] <= row["bound MB"]
