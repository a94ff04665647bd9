"""Losses beside the squared error, from the fit to new people."""

import numpy as np
import pandas as pd
import pytest

import parafair
from parafair import FairCP, TensorData, losses
from parafair.errors import ParafairWarning
from parafair.report.summary import measure_of
from tests.reference import losses as reference

NAMES = [name for name in losses.LOSSES if name != "squared"]
GROUPS = np.array(["a", "b"] * 20)


def tensor_of(name, missing=0.0):
    return reference.example(name, (40, 6, 5), missing=missing).numpy()


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_predicts_means_and_survives_its_folder(name, center, tmp_path):
    X, factors = tensor_of(name, missing=0.2), losses.needs_non_negative(losses.LOSSES[name])
    if factors and center:
        pytest.skip("means that are sums of non-negative components have no intercepts")
    model = FairCP(2, method="none", loss=name, center=center, ridge=1.0).fit(X[:30])
    assert 0 < model.fit_.residual < 1
    assert model.training_.loss.measure != "relative residual"
    everywhere = np.indices((30, 6, 5)).reshape(3, -1).T
    means = model.predict(everywhere)
    np.testing.assert_allclose(
        means, model.inverse_transform(model.embedding_).ravel(), rtol=1e-6, atol=1e-9
    )
    if name != "huber":
        assert (means >= 0).all() if factors else (means > 0).all()
    if name == "bernoulli":
        assert (means < 1).all()
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    assert again.get_params()["loss"] == name
    np.testing.assert_allclose(again.transform(X[30:]), model.transform(X[30:]), atol=1e-8)
    np.testing.assert_array_equal(again.predict(everywhere), means)


def test_training_people_get_their_rows_again():
    X = tensor_of("poisson", missing=0.2)
    model = FairCP(2, method="none", loss="poisson", ridge=1.0, tol=1e-9).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=0.02)
    assert model.score(X) == pytest.approx(1 - model.fit_.residual, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["invariant", "khsic", "hsic", "fatr", "transport"])
def test_every_method_fits_events_about_as_well_as_none(method):
    X = tensor_of("bernoulli")
    X[GROUPS == "a", :3] = 1 - X[GROUPS == "a", :3] * (np.arange(5) > 2)
    model = FairCP(2, method=method, loss="bernoulli", ridge=1.0)
    model.fit(X, sensitive_features=GROUPS)
    plain = FairCP(2, method="none", loss="bernoulli", ridge=1.0).fit(X)
    assert plain.fit_.residual - 0.02 < model.fit_.residual <= 1.05
    rows = model.transform(X[:5], sensitive_features=GROUPS[:5])
    assert np.isfinite(rows).all()


def test_settings_of_a_loss_survive_the_folder(tmp_path):
    X = tensor_of("huber")
    model = FairCP(1, method="none", loss=losses.Huber(delta=0.4)).fit(X)
    model.save(tmp_path / "model")
    assert FairCP.load(tmp_path / "model").training_.loss == losses.Huber(delta=0.4)


@pytest.mark.slow
def test_refinement_and_several_modes_work_with_counts():
    X = tensor_of("poisson")
    features = {0: GROUPS, 1: np.array(["x", "y"] * 3)}
    with pytest.warns(ParafairWarning, match="with noise=0, differences far below"):
        model = FairCP(2, loss="poisson", strength=1.0, n_init=1, noise=0).fit(
            X, sensitive_features=features
        )
    assert model.fit_.residual < 1
    single = FairCP(2, loss="poisson", strength=1.0, n_init=1).fit(X, sensitive_features=GROUPS)
    assert np.isfinite(single.transform(X, sensitive_features=GROUPS, refine=True)).all()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("poisson", -1.0, "whole numbers of at least 0"),
        ("poisson", 1.5, "whole numbers of at least 0"),
        ("negative-binomial", 0.5, "whole numbers of at least 0"),
        ("bernoulli", 1.2, "0, 1 or a probability"),
        ("binomial", 2.0, "whole numbers from 0 to its number of trials, 1; pass"),
        ("gamma", 0.0, "numbers above 0"),
    ],
)
def test_values_that_a_loss_cannot_take_are_refused_with_their_place(name, value, expected):
    X = tensor_of(name, missing=0.2)
    model = FairCP(1, method="none", loss=name, ridge=1.0).fit(X)
    X[3, 4, 2] = value
    with pytest.raises(ValueError, match=f"at mode_0 3, mode_1 4, mode_2 2, but .*{expected}"):
        FairCP(1, method="none", loss=name).fit(X)
    with pytest.raises(ValueError, match=f"X has {value:g} at mode_0 3"):
        model.transform(X)


def test_the_row_of_a_table_with_a_wrong_value_is_named():
    table = pd.DataFrame({"who": ["p", "q", "q"], "what": ["x", "x", "y"], "n": [1, 2, -3]})
    data = TensorData.from_table(table, modes=["who", "what"], value="n")
    with pytest.raises(ValueError, match="X has -3 at who q, what y, but loss='poisson'"):
        FairCP(1, method="none", loss="poisson").fit(data)


@pytest.mark.parametrize(
    "options",
    [{"method": "fair-pca"}, {"encoder": "linear"}, {"solver": "gradient", "method": "khsic"}],
)
def test_what_is_about_squared_errors_is_refused_before_any_work(options):
    with pytest.raises(ValueError, match="is defined by squared errors, but loss='poisson'"):
        FairCP(1, loss="poisson", **options).fit(np.full((4, 3), -1.0), sensitive_features="abab")


def test_a_frontier_has_no_limit_and_names_its_measure():
    X = tensor_of("bernoulli")
    frontier = parafair.frontier(
        FairCP(2, loss="bernoulli", n_init=1), X, sensitive_features=GROUPS,
        strengths=[0.0, 1.0], audits=None, certificates=None,
    )  # fmt: skip
    assert frontier.limit == ()
    assert len(frontier) == 2
    assert measure_of(frontier) == "a deviance ratio, relative to the best constant"
