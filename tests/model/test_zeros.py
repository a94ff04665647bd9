"""Models of data whose absent entries are zeros."""

import contextlib
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from parafair import FairCP, FairTucker, TensorData
from parafair.data.centering import Offsets
from parafair.data.splits import hold_out, split_cells
from parafair.losses import LOSSES
from parafair.solvers.problem import Problem
from tests.reference import zeros


@pytest.mark.parametrize("missing", [(), ((0, 0, 0), (3, 2, 1))])
@pytest.mark.parametrize("name", ["squared", "poisson-identity", "bernoulli"])
def test_fits_rows_and_predictions_are_those_of_dense_data(name, missing):
    listed, dense = zeros.pair(name, missing=missing)
    found, new = [], listed.take(0, [2, 5])
    for data, people in ((listed, new), (dense, new.to_dense())):
        start = [torch.rand(n, 2, generator=torch.Generator().manual_seed(n)) for n in data.shape]
        model = FairCP(2, method="none", loss=name, init=start, ridge=0.5, tol=0, max_iter=8)
        model.fit(data)
        found.append((model.fit_.residual, model.cp_, model.transform(people)))
        assert found[-1][0] < 1
        assert model.score(people) == pytest.approx(model.score(new.to_dense()), rel=1e-8)
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-5, atol=1e-7)


def test_lists_without_zeros_are_refused_as_new_people_and_loading_keeps_it(tmp_path):
    listed, _ = zeros.pair("poisson-identity")
    FairCP(2, method="none", loss="poisson-identity").fit(listed).save(tmp_path / "model")
    model = FairCP.load(tmp_path / "model")
    with pytest.raises(ValueError, match="absent entries are missing, but those of the training"):
        model.transform(TensorData(listed.values, listed.indices, listed.shape))
    assert model.transform(listed.take(0, [1])).min() >= 0


def test_dense_data_of_new_people_is_matched_by_label():
    listed, _ = zeros.pair("poisson")
    named = TensorData(listed.values, listed.indices, listed.shape, ("who", "what", "when"),
                       absent="zero")  # fmt: skip
    model = FairCP(2, method="none", loss="poisson", noise=0.1, max_iter=5, tol=0)
    model.fit(named, sensitive_features=np.arange(9) % 2)
    new = named.take(0, [2, 5])
    np.testing.assert_allclose(model.transform(new.to_dense()), model.transform(new), rtol=1e-5)
    assert model.score(new.to_dense()) == pytest.approx(model.score(new), rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "poisson", "poisson-identity"])
def test_somebody_without_any_event_has_the_same_row_alone(loss):
    listed, _ = zeros.pair("poisson")
    kept = listed.indices[0] != 3
    listed = TensorData(listed.values[kept], listed.indices[:, kept], listed.shape, absent="zero")
    model = FairCP(2, method="none", loss=loss, ridge=1.0, max_iter=5, tol=0).fit(listed)
    alone, together = (model.transform(listed.take(0, people)) for people in ([3], [2, 3]))
    np.testing.assert_allclose(alone[0], together[1], rtol=1e-6, atol=1e-9)


def test_problems_count_zeros_and_reach_the_deviance_of_the_dense_data():
    for name in ("squared", "poisson-identity", "negative-binomial"):
        listed, dense = zeros.pair(name)
        modes = (0, 1, 2) if name == "poisson-identity" else ()
        mine, other = (Problem(d, 2, loss=name, non_negative=modes) for d in (listed, dense))
        assert mine.count == other.count == 270
        assert mine.total == pytest.approx(other.total, rel=1e-12)
        assert mine.empty[0].numel() == 0


def test_offsets_are_those_of_dense_data():
    listed, dense = zeros.pair("poisson", missing=((0, 0, 0), (3, 2, 1)))
    for loss in ("squared", "poisson"):
        mine, other = (Offsets.fit(data, 0, LOSSES[loss]) for data in (listed, dense))
        assert mine.mean == pytest.approx(other.mean)
        for mode in (1, 2):
            torch.testing.assert_close(mine.by_mode[mode], other.by_mode[mode])


def test_held_out_entries_are_missing_and_not_zeros():
    listed, dense = zeros.pair("poisson")
    split = split_cells(listed, test_size=0.2, validation_size=0.1)
    full = split.train.to_dense().values
    for part in (split.test, split.validation):
        assert not part.zeros_count
        assert full[tuple(part.cells)].isnan().all()
        assert torch.equal(dense.values[tuple(part.cells)], part.entries)
        assert int((part.entries == 0).sum()) == part.observed // 2
    gone = split.test.observed + split.validation.observed
    assert split.train.observed == 270 - gone == int((~full.isnan()).sum())
    assert hold_out(dense, split.test.cells) is dense
    with pytest.raises(ValueError, match="of 2 listed entries, but the test needs at least one"):
        split_cells(TensorData(torch.ones(2), torch.eye(2).long(), (2, 2), absent="zero"))


def test_tables_say_what_is_missing_among_zeros():
    table = pd.DataFrame(
        {"who": ["a", "a", "b", "b"], "what": [1, 2, 1, 2], "x": [3.0, np.nan, 0.0, np.nan]}
    )
    table = pd.concat([table, table.iloc[:1].assign(x=np.nan)])
    data = TensorData.from_table(table, modes=["who", "what"], value="x", absent="zero")
    assert data.observed == 2  # a row with a value counts, whatever other rows of its entry say
    assert data.to_dense().values.nan_to_num(-1).tolist() == [[3, -1], [0, -1]]
    assert "sparse with 4 listed, others zero" in repr(data)
    assert data.to_sparse() is data
    assert data.observed_per("what").tolist() == [2, 0]
    with pytest.raises(ValueError, match="absent must be one of missing, zero"):
        TensorData.from_table(table, modes=["who", "what"], value="x", absent="0")


@pytest.mark.parametrize(
    ("loss", "change", "message"),
    [
        ("poisson-identity", -9.0, "but loss='poisson-identity' is for whole numbers of at least"),
        ("poisson-identity", 0.5, "but loss='poisson-identity' is for whole numbers of at least"),
        ("huber", 0.0, "which loss='huber' does not support; use one of squared"),
        ("gamma", 1.0, "which loss='gamma' does not support; use one of squared"),
    ],
)
def test_values_and_losses_that_do_not_fit_are_refused(loss, change, message):
    listed, _ = zeros.pair("poisson")
    with pytest.raises(ValueError, match=message):
        FairCP(2, method="none", loss=loss).fit(listed.with_values(listed.values + change))


def test_other_arguments_that_do_not_fit_are_refused():
    listed, _ = zeros.pair("poisson")
    huge = TensorData(torch.ones(1), torch.zeros(3, 1).long(), (10**5, 10**4, 10**3), absent="zero")
    with pytest.raises(ValueError, match="cells, which is more than 2,147,483,648; use one of"):
        FairCP(2, method="none", loss="poisson").fit(huge)
    with pytest.raises(ValueError, match="zeros minus offsets are no zeros"):
        FairCP(2, method="none", center=True).fit(listed)
    own = {"method": "none", "loss": "poisson-identity"}
    with pytest.raises(ValueError, match="has non-negative factors in all modes, but non_negative"):
        FairCP(2, **own, non_negative=(0,)).fit(listed)
    with pytest.raises(ValueError, match="those of a FairTucker have both signs; use FairCP"):
        FairTucker((2, 2, 2), **own).fit(listed)
    with pytest.raises(ValueError, match="center=True: entries minus offsets have both signs"):
        FairCP(2, **own, center=True).fit(listed)


SCRIPT = """
import resource, torch
from parafair import FairCP, TensorData
torch.manual_seed(0)
shape = {shape}
indices = torch.stack([torch.randint(0, n, (20000,)) for n in (300, 200, 100)])
indices = torch.unique(indices, dim=1)
data = TensorData(torch.ones(indices.shape[1]), indices, shape, absent="zero")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
FairCP(3, method="none", loss="{loss}", max_iter=3, tol=0).fit(data)
print("MiB", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "poisson-identity", "bernoulli-poisson"])
def test_memory_does_not_grow_with_the_number_of_cells(loss):
    used = []
    for shape in ((300, 200, 100), (3000, 2000, 1000)):
        script = SCRIPT.format(loss=loss, shape=shape)
        command = [sys.executable, "-W", "ignore", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        used.append(float(re.search(r"MiB ([\d.]+)", done.stdout)[1]))
    # A dense tensor of the larger shape has 22 GiB; factors grow by less than a MiB.
    assert used[1] < used[0] + 40


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "negative-binomial", "huber"])
@pytest.mark.parametrize("method", ["mean-matching", "hsic", "invariant"])
def test_other_losses_have_non_negative_factors_with_every_kind_of_penalty(loss, method):
    _, dense = zeros.pair("poisson", shape=(24, 6, 5))
    groups = np.resize(["a", "b"], 24)
    model = FairCP(2, method=method, loss=loss, non_negative=True, center=loss != "huber", noise=0)
    small = "differences far below the resolution of the method"
    warned = pytest.warns(match=small) if method == "invariant" else contextlib.nullcontext()
    with warned:
        model.fit(dense, sensitive_features=groups)
    assert all((factor >= 0).all() for factor in model.cp_.factors)
    objectives = [entry.objective for entry in model.fit_.history]
    assert objectives[-1] < objectives[0]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "bernoulli"])
def test_tucker_models_have_other_losses(loss):
    listed, dense = zeros.pair(loss, shape=(24, 6, 5))
    for data, init in ((dense, "svd"), (listed, "uniform")):
        model = FairTucker((2, 2, 2), method="none", loss=loss, init=init, ridge=1.0).fit(data)
        objectives = [entry.objective for entry in model.fit_.history]
        assert all(after <= before for before, after in pairwise(objectives))
        assert model.fit_.residual < 0.9
        assert model.predict([[0, 0, 0]]).item() > 0


def test_the_remedy_for_other_numbers_holds_with_zeros():
    data = TensorData.from_array(sparse.csr_array([[1.0, 0.5], [0.0, 2.0]]), absent="zero")
    with pytest.raises(ValueError, match="use loss='gamma' if all entries are positive, or 'sq"):
        FairCP(1, method="none", loss="poisson-identity").fit(data)


def test_a_dense_array_has_no_absent_entries():
    with pytest.raises(ValueError, match="absent='zero' is for sparse arrays, but this one is de"):
        TensorData.from_array([[1.0, np.nan], [2.0, 3.0]], absent="zero")
