from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from parafair import FairCP, FairTucker, TensorData, audit
from parafair.audits import Verdict
from parafair.losses import Binomial, Huber
from parafair.storage import new_folder

FEW = {"method": "none", "init": "normal", "tol": 1e-3, "max_iter": 60}
COLUMNS = list("vwxyz")


def draw(seed=0, n=60, gap=0.0):
    """A tensor, the model of a table of the same people on the scale of a link, and groups."""
    random = np.random.default_rng(seed)
    groups = random.integers(0, 2, n)
    rows = random.normal(size=(n, 3))
    rows[:, 0] += gap * (groups - 0.5)
    tensor = np.einsum("ir,jr,kr->ijk", rows, *(random.normal(size=(m, 3)) for m in (8, 6)))
    tensor += 0.3 * tensor.std() * random.normal(size=tensor.shape)
    return tensor, rows @ random.normal(size=(3, 5)), groups


def observe(kind, model, seed=0):
    """A table of events or counts with this model."""
    random = np.random.default_rng(seed)
    if kind == "bernoulli":
        return (random.random(model.shape) < 1 / (1 + np.exp(-model))).astype(float)
    return random.poisson(np.exp(0.5 * model)).astype(float)


@pytest.fixture(scope="module", params=["bernoulli", "poisson"])
def fitted(request):
    tensor, model, _ = draw()
    names = [f"p{i:02}" for i in range(len(tensor))]
    data = TensorData.from_array(tensor, modes=("who", "what", "when"), labels=(names, None, None))
    side = pd.DataFrame(observe(request.param, model), index=names, columns=COLUMNS)
    return FairCP(3, side_loss=request.param, **FEW).fit(data, side=side), data, side, model


def test_expected_values_are_predicted(fitted):
    model, _, side, truth = fitted
    found = model.predict_side()
    assert (found > 0).all()
    linked = np.log(found)
    if model.side_loss == "bernoulli":
        assert (found < 1).all()
        linked = linked - np.log(1 - found)
    assert np.corrcoef(linked.ravel(), truth.ravel())[0, 1] > 0.6
    assert 0 < model.fit_.side_residual < 0.9
    # Intercepts make the means of all columns right.
    np.testing.assert_allclose(found.mean(0), side.mean(), rtol=0.02)


def test_a_saved_model_is_equal(fitted, tmp_path):
    model, data, side, _ = fitted
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.side_loss == model.side_loss
    assert np.array_equal(loaded.predict_side(), model.predict_side())
    some, new = data.take(0, np.arange(9)), side.iloc[:9]
    assert np.array_equal(loaded.transform(some, side=new), model.transform(some, side=new))


def test_new_people_with_the_entries_of_training_people_get_their_rows(fitted):
    model, data, side, _ = fitted
    rows = model.transform(data, side=side)
    scale = model.embedding_.std()
    assert np.sqrt(np.mean((rows - model.embedding_) ** 2)) < 0.05 * scale
    # Nobody's row depends on the other people.
    alone = model.transform(data.take(0, np.arange(1)), side=side.iloc[:1])
    np.testing.assert_allclose(alone[0], rows[0], atol=1e-5 * scale)
    without = model.transform(data)
    assert np.abs(without - rows).max() > 1e-3 * scale


def test_wrong_values_are_refused_with_the_person_who_has_them(fitted):
    model, data, side, _ = fitted
    wrong = side.copy()
    wrong.loc["p07", "x"] = -2.0
    message = f"side has -2 at .*p07, .*x, but side_loss='{model.side_loss}' is for"
    with pytest.raises(ValueError, match=message):
        FairCP(3, side_loss=model.side_loss, **FEW).fit(data, side=wrong)
    with pytest.raises(ValueError, match=message):
        model.transform(data, side=wrong)


@pytest.mark.parametrize("loss", ["cauchy", None, 3])
def test_unknown_losses_are_refused_before_the_data_is_read(loss):
    with pytest.raises(ValueError, match="side_loss must be one of squared, huber"):
        FairCP(3, side_loss=loss).fit(None)


@pytest.mark.parametrize("loss", ["poisson-identity", "bernoulli-poisson"])
def test_losses_of_non_negative_factors_are_refused_before_the_data_is_read(loss):
    with pytest.raises(ValueError, match=f"side_loss='{loss}' has non-negative factors"):
        FairCP(3, side_loss=loss).fit(None)


def test_units_of_a_column_do_not_matter_to_huber():
    tensor, model, _ = draw(n=30)
    wild = model + np.random.default_rng(1).standard_t(1.5, size=model.shape)
    one, two = (
        FairCP(3, side_loss=Huber(0.5), **{**FEW, "tol": 0.0, "max_iter": 3}).fit(
            tensor, side=wild * unit
        )
        for unit in (1.0, [1, 10, 100, 0.1, 1])
    )
    np.testing.assert_allclose(two.embedding_, one.embedding_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(two.predict_side()[:, 2], 100 * one.predict_side()[:, 2], rtol=1e-2)


def test_a_column_of_zeros_is_named_and_does_no_harm():
    tensor, model, _ = draw()
    counts = observe("poisson", model)
    counts[:, 2] = 0
    with pytest.warns(UserWarning, match="columns 2 of side have the same value"):
        found = FairCP(3, side_loss="poisson", **{**FEW, "tol": 0.0, "max_iter": 5}).fit(
            tensor, side=counts
        )
    assert found.predict_side()[:, 2].max() < 0.5


def test_a_loss_of_ones_own_and_a_tucker_model_are_saved(tmp_path):
    tensor, model, _ = draw(n=40)
    trials = observe("bernoulli", model) + observe("bernoulli", model, seed=1)
    found = FairTucker((3, 3, 3), side_loss=Binomial(2), method="none", max_iter=10, tol=0.0)
    found.fit(tensor, side=trials)
    found.save(tmp_path / "model")
    loaded = FairTucker.load(tmp_path / "model")
    assert loaded.training_.side.columns.loss == Binomial(2)
    assert np.array_equal(loaded.predict_side(), found.predict_side())


def test_events_and_counts_go_together():
    tensor, model, _ = draw(n=40)
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * np.clip(tensor, -5, 5)))
    side = observe("bernoulli", model[:40])
    quick = {**FEW, "tol": 0.0, "max_iter": 10}
    found = FairCP(3, loss="poisson", side_loss="bernoulli", **quick).fit(counts, side=side)
    assert found.fit_.residual < 0.95
    assert found.fit_.side_residual < 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n"), [(101, 130), (102, 170), (103, 210)])
@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_a_fair_fit_hides_what_a_table_reveals(seed, n, kind):
    tensor, model, groups = draw(seed, n=n, gap=2.0)
    table = observe(kind, model, seed)
    leak = observe(kind, (groups[:, None] - 0.5) * [3.0, -3.0], seed + 1)
    side = np.column_stack([table, leak])
    verdicts = []
    for method in ("none", "invariant"):
        found = FairCP(3, method=method, side_loss=kind).fit(
            tensor, sensitive_features=groups, side=side
        )
        verdicts.append(audit(found.embedding_, sensitive_features=groups).verdict(0.1))
    assert verdicts[0] is Verdict.LEAKS
    assert verdicts[1] is not Verdict.LEAKS


def test_a_file_with_intercepts_of_other_columns_is_damaged(fitted, tmp_path):
    fit = replace(fitted[0].fit_, side_intercepts=torch.zeros(1))
    with new_folder(tmp_path / "fit") as folder:
        fit.write(folder)
    with pytest.raises(ValueError, match="intercepts of side information have the shape"):
        type(fit).load(tmp_path / "fit")
