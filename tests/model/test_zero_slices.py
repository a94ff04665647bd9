"""Data in which all entries of an item and of a day are zero, for every loss and model."""

import re

import numpy as np
import pytest
import torch

from parafair import FairCP, FairTucker, TensorData
from parafair.losses import LOSSES, Binomial, needs_non_negative

SHAPE, ITEM, DAY = (20, 7, 6), 3, 5
GROUPS = np.arange(20) % 2
STORED = ["complete", "missing", pytest.param("listed", marks=pytest.mark.slow), "zero"]
QUICK = {"max_iter": 20, "tol": 1e-2}


def entries_of(name):
    """Counts of rank 2 or what becomes of them; nothing happens to one item and on one day."""
    random = np.random.default_rng(0)
    rates = np.einsum("ir,jr,kr->ijk", *(random.gamma(1.0, size=(n, 2)) for n in SHAPE))
    entries = random.poisson(rates / rates.mean()).astype(float)
    if name.startswith("bernoulli"):
        entries = np.minimum(entries, 1)
    elif name in ("squared", "huber"):
        entries -= entries.mean()
    entries[:, ITEM] = entries[:, :, DAY] = 0
    return np.minimum(entries, 10)


def store(entries, stored):
    """The same as a tensor, with missing entries, and as a list with absent entries or zeros."""
    if stored == "complete":
        return TensorData.from_array(entries)
    if stored == "zero":
        cells = np.argwhere(entries)
        values, cells = torch.from_numpy(entries[tuple(cells.T)]), torch.from_numpy(cells.T.copy())
        return TensorData(values, cells, entries.shape, absent="zero")
    holes = TensorData.from_array(
        np.where(np.random.default_rng(1).random(SHAPE) < 0.3, np.nan, entries)
    )
    return holes if stored == "missing" else holes.to_sparse()


def loss_of(name):
    return Binomial(10) if name == "binomial" else name


def models_of(name, stored):
    """Plain and fair models, with components of both signs, non-negative ones, and Tucker's."""
    settings = {"loss": loss_of(name), **QUICK}
    if stored in ("missing", "listed"):
        settings["ridge"] = 0.3
    yield FairCP(2, method="none", **settings)
    yield FairCP(2, **settings)
    if needs_non_negative(LOSSES[name]):
        return
    init = "svd" if stored in ("complete", "missing") else "uniform"
    yield FairTucker((2, 2, 2), init=init, **settings)
    if name not in ("squared", "huber"):  # whose entries here have both signs
        yield FairCP(2, non_negative=True, center=True, **settings)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "gamma"])
@pytest.mark.filterwarnings("ignore:.*did not converge:UserWarning")
def test_a_slice_of_zeros_leaves_everything_finite(name, stored):
    if (name, stored) == ("huber", "zero"):
        pytest.skip("zeros that are not listed are refused")
    data = store(entries_of(name), stored)
    for model in models_of(name, stored):
        model.fit(data, sensitive_features=GROUPS)
        assert all(torch.isfinite(factor).all() for factor in model.cp_.factors)
        assert 0 < model.fit_.residual < 1
        cells = np.stack(np.indices(SHAPE), -1).reshape(-1, 3)
        means = model.predict(cells).reshape(SHAPE)
        assert np.isfinite(means).all()
        # Nothing happened there, and the model says so.
        assert abs(means[:, ITEM]).mean() < abs(means).mean()
        assert abs(means[:, :, DAY]).mean() < abs(means).mean()
        new = data.take(0, [1, 2, 3])
        assert np.isfinite(model.transform(new, sensitive_features=GROUPS[1:4])).all()
        assert np.isfinite(model.score(new))


@pytest.mark.parametrize("stored", ["complete", "zero"])
def test_events_alone_in_a_component_do_not_make_rows_huge(stored):
    # Without a ridge, the row of a person with events in all cells of a component has no limit.
    data = store(entries_of("bernoulli-poisson"), stored)
    for method in ("none", "invariant", "mean-matching"):
        model = FairCP(2, method=method, loss="bernoulli-poisson", tol=1e-3)
        model.fit(data, sensitive_features=GROUPS)
        assert model.ridge_ > 0
        assert model.fit_.residual < 1
        assert abs(model.embedding_).max() < 100


def test_somebody_without_events_in_a_list_does_not_make_noise_huge():
    counts = entries_of("poisson")
    counts[4] = 0
    model = FairCP(2, loss="poisson", tol=1e-3)
    model.fit(store(counts, "zero"), sensitive_features=GROUPS)
    assert model.ridge_ > 0
    assert model.fit_.residual < 1.1 * model.fit_.before_noise.residual


@pytest.mark.parametrize("stored", ["complete", "missing", "listed"])
@pytest.mark.parametrize(
    "model", [FairCP(2), FairCP(2, non_negative=True), FairTucker((2, 2, 2))], ids=repr
)
def test_gamma_refuses_the_slice_by_its_place(model, stored):
    entries = entries_of("gamma") + 0.5
    entries[:, ITEM] = 0
    place = "who 0, item 3, day 0"
    if stored != "complete":
        entries[0, ITEM] = entries[1, ITEM, :2] = np.nan
        place = "who 1, item 3, day 2"
    data = TensorData.from_array(entries, modes=("who", "item", "day"))
    data = data.to_sparse() if stored == "listed" else data
    model = model.set_params(loss="gamma")
    with pytest.raises(ValueError, match=re.escape(f"X has 0 at {place}, and")):
        model.fit(data, sensitive_features=GROUPS)


def test_new_people_of_a_tucker_model_are_refused_by_place_too():
    entries = entries_of("gamma") + 0.5
    modes = ("who", "item", "day")
    model = FairTucker((2, 2, 2), method="none", loss="gamma", tol=1e-2)
    model.fit(TensorData.from_array(entries, modes=modes))
    entries[:, ITEM] = 0
    with pytest.raises(ValueError, match="X has 0 at who 0, item 3, day 0, and 17 more"):
        model.transform(TensorData.from_array(entries[:3], modes=modes))


@pytest.mark.parametrize("name", ["huber", "gamma"])
def test_losses_without_zeros_refuse_lists_of_events(name):
    with pytest.raises(ValueError, match=f"loss='{name}' does not support"):
        FairCP(2, loss=name).fit(store(entries_of("poisson"), "zero"), sensitive_features=GROUPS)
