import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from parafair import (
    ConvergenceWarning,
    CPTensor,
    FairCP,
    Interrupted,
    ParafairWarning,
    SensitiveFeatures,
    Status,
)
from parafair.audits.measures import residual_fit
from parafair.dependence.criterion import Criterion
from parafair.penalties import HSIC
from parafair.solvers import GradientBCD


@pytest.mark.parametrize("method", ["invariant", "khsic", "hsic", "fatr", "none"])
@pytest.mark.parametrize("solver", ["block", GradientBCD((0.02, 0.2), inner_steps=20)])
def test_every_method_runs_with_every_solver(data, method, solver):
    model = FairCP(3, method=method, solver=solver, max_iter=5, tol=0, n_init=1, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    assert model.embedding_.shape == (40, 3)
    assert model.cp_.shape == data.tensor.shape
    assert model.fit_.residual == pytest.approx(residual_fit(data.tensor, model.cp_))
    # The default method adds noise after the last iteration.
    assert model.fit_.before_noise.objective < model.fit_.history[0].objective


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("mode", [0, 1])
def test_any_order_and_any_sensitive_mode(order, mode):
    tensor = np.random.default_rng(0).uniform(size=(6, 6, 5, 4)[:order])
    model = FairCP(2, method="hsic", mode=mode, tol=1e-3, random_state=0)
    model.fit(tensor, sensitive_features=[0, 1, 0, 1, 1, 0])
    assert model.embedding_.shape == (6, 2)
    np.testing.assert_array_equal(model.embedding_, model.cp_.factors[mode])


def test_transform_of_the_training_data_is_the_embedding(data):
    for mode in (0, 1, 2):
        tensor = np.moveaxis(data.tensor, 0, mode)
        model = FairCP(3, method="none", mode=mode, random_state=0).fit(tensor)
        np.testing.assert_allclose(model.transform(tensor), model.embedding_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            model.inverse_transform(model.embedding_), model.cp_.reconstruct(), rtol=1e-10
        )


def test_transform_takes_new_people_and_checks_their_shape(data):
    model = FairCP(3, method="none", random_state=0).fit(data.tensor)
    assert model.transform(data.tensor[:5]).shape == (5, 3)
    with pytest.raises(
        ValueError, match=r"X must have shape \(people, 12, 10\), got \(40, 12, 9\); pass"
    ):
        model.transform(data.tensor[:, :, :9])
    with pytest.raises(ValueError, match="X must have 3 columns, one per component; got"):
        model.inverse_transform(np.ones((2, 4)))


def test_transform_warns_that_new_people_are_not_penalized(data):
    model = FairCP(2, method="hsic", tol=1e-3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit_transform(data.tensor, sensitive_features=data.sensitive_features)
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        model.transform(data.tensor)


def test_seed_reaches_everything(data):
    fits = [
        FairCP(3, method="khsic", random_state=s, max_iter=5, tol=0)
        .fit(data.tensor, sensitive_features=data.sensitive_features)
        .embedding_
        for s in (0, 0, 1)
    ]
    assert np.array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


@pytest.mark.parametrize(
    "features",
    [
        lambda s: s,
        lambda s: s.tolist(),
        lambda s: pd.Series(s, name="group"),
        lambda s: pd.DataFrame({"group": s}),
        lambda s: s == "normal",
        lambda s: SensitiveFeatures.of(s),
        lambda s: torch.from_numpy((s == "uniform").astype(int)),
    ],
)
def test_all_forms_of_sensitive_features_give_the_same_fit(data, features):
    options = {"method": "hsic", "random_state": 0, "max_iter": 3, "tol": 0}
    expected = FairCP(2, **options).fit(data.tensor, sensitive_features=data.sensitive_features)
    model = FairCP(2, **options).fit(
        data.tensor, sensitive_features=features(data.sensitive_features)
    )
    np.testing.assert_allclose(model.embedding_, expected.embedding_, rtol=1e-8)


def test_several_features_of_both_kinds(data):
    table = pd.DataFrame({"group": data.sensitive_features, "age": np.linspace(20, 60, 40)})
    model = FairCP(2, method="khsic", random_state=0, max_iter=3, tol=0)
    assert model.fit(data.tensor, sensitive_features=table).embedding_.shape == (40, 2)


def test_data_may_be_a_torch_tensor_or_a_frame(data, matrix):
    tensor = torch.from_numpy(data.tensor).float()
    model = FairCP(2, method="none", random_state=0, tol=1e-3).fit(tensor)
    assert model.embedding_.dtype == np.float32
    double = FairCP(2, method="none", random_state=0, tol=1e-3, dtype="float64").fit(tensor)
    assert double.embedding_.dtype == np.float64
    frame = pd.DataFrame(matrix[0])
    assert FairCP(2, method="none", random_state=0).fit(frame).n_features_in_ == 8


def test_settings_are_recorded(data):
    model = FairCP(2, method=HSIC(3.0), random_state=5, tol=1e-3)
    record = model.fit(data.tensor, sensitive_features=data.sensitive_features).record_
    assert record.params == model.get_params()
    assert (record.strength, record.noise, record.ridge) == (3.0, 0.0, 0.0)
    assert (record.seed, record.shape) == (5, (40, 12, 10))
    assert (record.dtype, record.device) == ("float64", "cpu")
    assert record.versions["torch"] == torch.__version__
    (column,) = model.training_.features.columns
    assert (column.name, column.categories) == ("sensitive", ("normal", "uniform"))


def test_not_converging_is_a_status_and_one_warning(data):
    with pytest.warns(ConvergenceWarning, match="after 2 iterations: did not converge") as w:
        model = FairCP(3, method="none", max_iter=2, random_state=0).fit(data.tensor)
    assert len(w) == 1
    assert model.fit_.status is Status.OUT_OF_ITERATIONS


def test_diverging_is_a_status_and_a_warning_and_leaves_finite_factors(data):
    solver = GradientBCD((1e6, 1e6), cap=False)
    with pytest.warns(ConvergenceWarning, match="the objective became infinite or undefined"):
        model = FairCP(3, method="none", solver=solver, random_state=0).fit(data.tensor)
    assert model.fit_.status is Status.DIVERGED
    assert np.isfinite(model.embedding_).all()


def test_a_rising_objective_is_said(data):
    with pytest.warns(ConvergenceWarning, match="increased during the fit.*smaller step_sizes"):
        FairCP(3, method="khsic", strength=1e6, solver="gradient", random_state=0).fit(
            data.tensor, sensitive_features=data.sensitive_features
        )


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_the_data_do_not_matter(data, scale):
    options = {"method": "hsic", "strength": 10.0, "random_state": 0, "tol": 1e-4}
    models = [
        FairCP(3, **options).fit(tensor, sensitive_features=data.sensitive_features)
        for tensor in (data.tensor, scale * data.tensor)
    ]
    assert models[1].fit_.residual == pytest.approx(models[0].fit_.residual, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e6])
def test_random_starts_find_the_units_of_the_data(data, scale):
    # Where the penalty is negligible (rows far apart, or all alike), the fit is the plain one's.
    options = {"random_state": 0, "tol": 1e-4}
    model = FairCP(3, method="khsic", strength=1e-3, **options)
    model.fit(scale * data.tensor, sensitive_features=data.sensitive_features)
    plain = FairCP(3, method="none", **options).fit(data.tensor)
    assert model.fit_.residual == pytest.approx(plain.fit_.residual, abs=0.02)


def test_people_whose_entries_are_all_zero_get_zero(data):
    model = FairCP(3, method="none", random_state=0).fit(data.tensor)
    assert not model.transform(np.zeros((2, 12, 10))).any()
    assert not model.inverse_transform(np.zeros((2, 3))).any()


def test_people_without_observed_entries_get_the_mean_row(data):
    holed = data.tensor.copy()
    holed[[3, 20]] = np.nan
    others = np.delete(np.arange(40), [3, 20])
    model = FairCP(2, method="hsic", ridge=0.0, tol=1e-3)
    with pytest.warns(ParafairWarning, match="no observed entries for 2 of 40 indices of mode 0"):
        model.fit(holed, sensitive_features=data.sensitive_features)
    expected = model.embedding_[others].mean(0)
    np.testing.assert_allclose(model.embedding_[[3, 20]], [expected, expected])
    # They do not change the rows of the others.
    without = FairCP(2, method="hsic", ridge=0.0, tol=1e-3, init=start_of(others))
    with_them = FairCP(2, method="hsic", ridge=0.0, tol=1e-3, init=start_of(np.arange(40)))
    without.fit(holed[others], sensitive_features=data.sensitive_features[others])
    with pytest.warns(ParafairWarning, match="no observed entries for 2 of 40 indices of mode 0"):
        with_them.fit(holed, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(with_them.embedding_[others], without.embedding_, rtol=1e-3)
    # New people without entries get the same mean.
    with pytest.warns(ParafairWarning, match="2 of 40 new people have no observed entries"):
        rows = model.transform(holed, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(rows[[3, 20]], [model.embedding_.mean(0)] * 2)


def start_of(people):
    """Factors to begin from, the same for the same people."""
    random = np.random.default_rng(0)
    factors = [random.uniform(size=(size, 2)) for size in (40, 12, 10)]
    return [factors[0][people], *factors[1:]]


def test_interrupted_model_is_usable(data):
    def interrupt(number, objective):
        if number == 2:
            raise KeyboardInterrupt

    model = FairCP(3, method="none", random_state=0)
    with pytest.raises(Interrupted, match="interrupted after 2 iterations"):
        model.fit(data.tensor, on_iteration=interrupt)
    assert model.fit_.status is Status.INTERRUPTED
    assert model.record_.params["rank"] == 3
    assert model.transform(data.tensor).shape == (40, 3)


@pytest.mark.parametrize(
    ("options", "sensitive", "message"),
    [
        ({"method": "khsic"}, None, "method='khsic' needs sensitive_features, but none were given"),
        ({"method": "ksic"}, [0, 1], "method must be one of .*did you mean 'khsic'"),
        (
            {"method": "hsic", "strength": -2.0},
            [0, 1],
            "strength must be a finite number.*got -2.0",
        ),
        ({"method": "none", "solver": "blok"}, None, "solver must be one of.*did you mean 'block'"),
        ({"method": "none", "solver": None}, None, "one of auto, block, lbfgs, gradient; got None"),
        (
            {"method": "none", "solver": GradientBCD},
            None,
            "one of auto, block, lbfgs, gradient; got",
        ),
        ({"method": "none", "loss": "absolute"}, None, "loss must be one of squared, huber"),
        ({"method": "none", "dtype": "float16"}, None, "dtype must be one of float32, float64"),
        ({"method": "none", "max_iter": 2.5}, None, "max_iter must be a whole number"),
        (
            {"method": "none", "random_state": -1},
            None,
            "random_state must be a whole number between 0 and",
        ),
        ({"method": "none", "device": "gpu"}, None, "device='gpu' cannot be used here"),
        ({"method": "none", "strength": 1}, None, "strength=1 was given, but method='none' has no"),
        ({"method": "none"}, [0, 1], "sensitive_features has 2 rows but mode 0 .* has 40"),
        ({"method": "none", "rank": 0}, None, "rank must be a whole number of at least 1, got 0"),
        ({"method": "none", "rank": 500}, None, "rank must be at most 120 for shape"),
        ({"method": "none", "mode": 3}, None, "mode must be between 0 and 2 or one of"),
        ({"method": "none", "n_init": 0}, None, "n_init must be a whole number"),
        ({"method": "none", "max_iter": 0}, None, "max_iter must be a whole number"),
        ({"method": "none", "init": "zero"}, None, "init must be one of uniform, normal, svd"),
        ({"method": "hsic"}, [0, 1], "sensitive_features has 2 rows but mode 0 .* has 40"),
        ({"method": "hsic"}, [1] * 40, "sensitive feature 'sensitive' is constant"),
        ({"method": "hsic"}, [1, None] * 20, "'sensitive' has 20 missing values"),
    ],
)
def test_bad_settings_are_refused_before_any_work(data, options, sensitive, message):
    with pytest.raises(ValueError, match=message):
        FairCP(**{"rank": 2, **options}).fit(data.tensor, sensitive_features=sensitive)


@pytest.mark.parametrize(
    ("tensor", "error", "message"),
    [
        (np.full((3, 3), np.nan), ValueError, "all are missing; at least one must be"),
        (np.array([[1.0, np.inf], [3.0, 4.0]]), ValueError, r"1 infinite entries, the first at"),
        (np.ones((3, 0, 3)), ValueError, r"none empty, got shape \(3, 0, 3\)"),
        (np.array([[["x", "y"]]]), TypeError, "X must hold numbers, got an array of <U1"),
        (np.ones(3), ValueError, "Expected 2D array, got 1D array"),
    ],
)
def test_bad_tensors_are_refused(tensor, error, message):
    with pytest.raises(error, match=message):
        FairCP(1, method="none").fit(tensor)


def test_result_unpacks_like_tensorlys(data):
    tensorly = pytest.importorskip("tensorly")
    model = FairCP(2, method="none", random_state=0).fit(data.tensor)
    weights, factors = model.cp_
    assert isinstance(model.cp_, CPTensor)
    rebuilt = tensorly.cp_to_tensor((weights.numpy(), [factor.numpy() for factor in factors]))
    np.testing.assert_allclose(rebuilt, model.cp_.reconstruct())


def test_reconstruction_error_is_the_norm_of_the_error(data):
    model = FairCP(3, method="none").fit(data.tensor)
    error = np.linalg.norm(data.tensor - model.inverse_transform(model.embedding_))
    assert model.reconstruction_err_ == pytest.approx(error)
    assert model.n_iter_ == len(model.fit_.history) - 1


def test_score_is_the_explained_share_of_the_squares(data):
    model = FairCP(3, method="none").fit(data.tensor[:30])
    new = data.tensor[30:]
    error = np.linalg.norm(new - model.inverse_transform(model.transform(new)))
    assert model.score(new) == pytest.approx(1 - (error / np.linalg.norm(new)) ** 2)
    assert model.score(data.tensor[:30]) == pytest.approx(1 - model.fit_.residual**2, rel=1e-4)


def test_verbose_prints_iterations(data, capsys):
    FairCP(2, method="none", max_iter=12, tol=0, verbose=1).fit(data.tensor)
    lines = capsys.readouterr().out.splitlines()
    # Those of the rough fits, then of the fit.
    assert [line.split(":")[0] for line in lines] == ["iteration 10", "iteration 20"]
    FairCP(2, method="none", n_init=1, max_iter=3, tol=0, verbose=2).fit(data.tensor)
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.filterwarnings("ignore::parafair.ConvergenceWarning")
def test_attributes_of_an_earlier_fit_are_gone(matrix, monkeypatch):
    monkeypatch.setattr("parafair.model.strength.LAST_STRENGTH", 0.0)
    monkeypatch.setattr("parafair.model.strength.AUDITED", ((1.0, 1.0),))
    monkeypatch.setattr("parafair.audits.panel", lambda stage: ("linear",))
    values, groups = matrix
    model = FairCP(2, strength="auto", tol=1e-2, n_init=1)
    model.fit(values, sensitive_features=groups)
    assert model.selection_.trials
    model.set_params(strength=1.0).fit(values, sensitive_features=groups)
    assert not hasattr(model, "selection_")


def test_refitting_forgets_the_columns_of_an_earlier_matrix(data, matrix):
    model = FairCP(2, method="none", random_state=0).fit(matrix[0])
    assert model.n_features_in_ == 8
    assert not hasattr(model.fit(data.tensor), "n_features_in_")


@pytest.fixture(scope="module")
def two_modes():
    """People and items in two groups each, both visible in the factors."""
    random = np.random.default_rng(3)
    groups = [random.integers(0, 2, size) for size in (60, 50)]
    factors = [
        random.standard_normal((len(group), 3)) + 2 * np.outer(group, [1, 0, 0]) for group in groups
    ]
    tensor = np.einsum("ir,jr,kr->ijk", *factors, random.uniform(size=(8, 3)))
    return tensor, groups


def dependence(rows, groups):
    """The criterion's statistics in standard deviations: about 1 without dependence."""
    features = SensitiveFeatures.of(groups)
    rows = torch.as_tensor(rows)
    criterion = Criterion(features, rows.flatten()[:0])
    return float(criterion.deviations(rows).square().mean().sqrt())


@pytest.mark.parametrize("solver", ["block", GradientBCD((0.05, 0.05), inner_steps=5)])
def test_several_sensitive_modes_at_once(two_modes, solver):
    tensor, (people, items) = two_modes
    settings = {"max_iter": 10 if solver == "block" else 3, "tol": 0, "solver": solver, "n_init": 1}
    model = FairCP(3, strength=100.0, **settings)
    model.fit(tensor, sensitive_features={0: people, 1: items})
    objective = [entry.objective for entry in model.fit_.history[: model.n_iter_ + 1]]
    assert objective[-1] < objective[0]
    if solver == "block":
        one = FairCP(3, strength=100.0, **settings).fit(tensor, sensitive_features=people)
        both = [dependence(model.cp_.factors[mode], g) for mode, g in enumerate((people, items))]
        assert max(both) < 1.5
        assert dependence(one.cp_.factors[1], items) > 3
        assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(objective))


def test_several_sensitive_modes_need_the_invariant_criterion(two_modes):
    tensor, (people, items) = two_modes
    features = {0: people, 1: items}
    with pytest.raises(
        ValueError, match="several modes need a scale-free penalty such as method='invariant'"
    ):
        FairCP(2, method="khsic").fit(tensor, sensitive_features=features)
    with pytest.raises(ValueError, match="has no entry for the mode of the people"):
        FairCP(2, mode=2).fit(tensor, sensitive_features=features)
    with pytest.raises(ValueError, match="strength='auto' supports one sensitive mode"):
        FairCP(2, strength="auto").fit(tensor, sensitive_features=features)
    with pytest.raises(ValueError, match="has 60 rows but mode 1"):
        FairCP(2).fit(tensor, sensitive_features={0: people, 1: people})
