import numpy as np
import pytest
import torch
from sklearn.base import clone

from parafair import (
    FairCP,
    FairTucker,
    SensitiveFeatures,
    TensorData,
    certify,
    frontier,
    frontiers,
    split_cells,
    tune,
)
from parafair.dependence.criterion import Criterion
from parafair.errors import ParafairWarning
from parafair.penalties import Invariant
from parafair.report import write_report
from tests.model.conftest import check_gradients, tucker_problem

SHAPE, RANKS = (40, 7, 6), (4, 3, 2)
GROUPS = np.array(["a", "b"] * 20)
QUICK = {"noise": 0.1, "strength": 3.0, "max_iter": 30, "tol": 1e-3}


@pytest.fixture(scope="module")
def tensor():
    """A Tucker tensor with 5 % noise whose first column of people depends on the group."""
    random = np.random.default_rng(0)
    factors = [random.normal(size=pair) for pair in zip(SHAPE, RANKS, strict=True)]
    factors[0][:, 0] += 2.0 * (GROUPS == "a")
    tensor = np.einsum("abc,ia,jb,kc->ijk", random.normal(size=RANKS), *factors)
    return tensor + 0.05 * tensor.std() * random.normal(size=SHAPE)


@pytest.fixture(scope="module")
def holes(tensor):
    """The same with missing entries."""
    return np.where(np.random.default_rng(1).random(SHAPE) < 0.2, np.nan, tensor)


@pytest.fixture(scope="module")
def model(tensor):
    return FairTucker(RANKS, **QUICK).fit(tensor, sensitive_features=GROUPS)


def test_full_ranks_reproduce_the_data(tensor):
    model = FairTucker(SHAPE, method="none").fit(tensor)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), tensor, atol=1e-10)
    assert model.fit_.residual < 1e-12


def test_a_plain_decomposition_has_tensorlys_error(tensor):
    decomposition = pytest.importorskip("tensorly.decomposition")
    _, errors = decomposition.tucker(tensor, RANKS, n_iter_max=300, tol=1e-12, return_errors=True)
    model = FairTucker(RANKS, method="none", tol=1e-8).fit(tensor)
    assert model.fit_.residual == pytest.approx(float(errors[-1]), rel=1e-6)


def test_core_and_factors_are_the_model(model, tensor):
    core, factors = model.tucker_
    assert tuple(core.shape) == RANKS
    assert [tuple(factor.shape) for factor in factors] == list(zip(SHAPE, RANKS, strict=True))
    np.testing.assert_allclose(factors[0], model.embedding_)
    for factor, rank in zip(factors[1:], RANKS[1:], strict=True):
        torch.testing.assert_close(factor.mT @ factor, torch.eye(rank, dtype=torch.float64))
    whole = model.inverse_transform(model.embedding_)
    np.testing.assert_allclose(model.tucker_.reconstruct(), whole)
    cells = [[0, 1, 2], [39, 6, 5]]
    np.testing.assert_allclose(model.predict(cells), [whole[0, 1, 2], whole[39, 6, 5]])
    judged = np.linalg.norm(tensor - whole)
    assert model.reconstruction_err_ == pytest.approx(judged)


def test_the_penalty_lowers_dependence(tensor, model):
    plain = FairTucker(RANKS, method="none").fit(tensor)
    criterion = Invariant(1.0).criterion(model.training_.features, torch.zeros(1).double())
    left, before = (
        float(criterion.value_and_gradient(torch.from_numpy(each.embedding_))[0])
        for each in (model, plain)
    )
    assert left < 0.2 * before
    assert plain.fit_.residual < model.fit_.residual < 1


def test_mixing_columns_leaves_the_penalty_unchanged(model):
    bound = Invariant(3.0, rotation_free=True)
    criterion = bound.criterion(model.training_.features, torch.zeros(1).double())
    assert isinstance(criterion, Criterion)
    rows = torch.from_numpy(model.embedding_)
    mixed = (
        rows
        @ torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
        @ torch.diag(torch.tensor([1.0, 10.0, 0.1, 3.0], dtype=torch.float64))
    )
    values = [float(criterion.value_and_gradient(each)[0]) for each in (rows, mixed)]
    assert values[1] == pytest.approx(values[0], rel=1e-4)
    deviations = [criterion.deviations(each) for each in (rows, mixed)]
    torch.testing.assert_close(deviations[0], deviations[1], rtol=1e-3, atol=1e-3)
    permuted = criterion.permuted(rows, permutations=5, random_state=0)
    assert float(permuted[0]) == pytest.approx(values[0], rel=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_gradients_in_all_parameters_match_finite_differences(tensor, holes, missing):
    data = holes if missing else tensor
    check_gradients(tucker_problem(data, RANKS, Invariant(3.0, rotation_free=True), GROUPS))


@pytest.mark.parametrize("solver", ["block", "lbfgs"])
@pytest.mark.parametrize("missing", [False, True])
def test_the_objective_never_increases_and_ranks_stay(tensor, holes, solver, missing):
    data = holes if missing else tensor
    model = FairTucker(RANKS, solver=solver, ridge=0.0, **{**QUICK, "noise": 0.1})
    model.fit(data, sensitive_features=GROUPS)
    values = np.array([entry.objective for entry in model.fit_.history[: model.n_iter_]])
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()
    factor = model.cp_.factors[1].reshape(*SHAPE[1:], RANKS[0])
    for mode, rank in enumerate(RANKS[1:]):
        singular = torch.linalg.svdvals(factor.movedim(mode, 0).flatten(1))
        assert float(singular[rank]) < 1e-10 * float(singular[0])


@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.parametrize(
    "method", ["transport", "sliced-transport", "correlation-removal", "moment-matching"]
)
def test_methods_that_change_a_plain_decomposition(tensor, method):
    model = FairTucker(RANKS, method=method, noise=0)
    model.fit(tensor, sensitive_features=GROUPS)
    means = [model.embedding_[group == GROUPS].mean(0) for group in "ab"]
    spread = model.embedding_.std(0)
    assert (abs(means[0] - means[1]) < 0.05 * spread).all()


def test_missing_entries_are_predicted(tensor, holes):
    model = FairTucker(RANKS, method="none", ridge=0.0).fit(holes)
    missing = np.argwhere(np.isnan(holes))
    truth = tensor[tuple(missing.T)]
    error = np.linalg.norm(model.predict(missing) - truth) / np.linalg.norm(truth)
    assert error < 0.1
    sparse = TensorData.from_array(holes).to_sparse()
    other = FairTucker(RANKS, method="none", ridge=0.0, init="uniform").fit(sparse)
    assert other.fit_.residual == pytest.approx(model.fit_.residual, rel=0.01)


def test_a_cell_without_entries_has_values(holes):
    holes = holes.copy()
    holes[:, 2, 3] = np.nan
    model = FairTucker(RANKS, method="none", ridge=0.0).fit(holes)
    found = model.predict([[person, 2, 3] for person in range(5)])
    assert np.isfinite(found).all()
    assert np.ptp(found) > 0


def test_people_may_be_any_mode(tensor):
    first = FairTucker(RANKS, method="none").fit(tensor)
    moved = FairTucker((3, 2, 4), method="none", mode=2).fit(np.moveaxis(tensor, 0, 2))
    assert moved.embedding_.shape == (40, 4)
    assert moved.fit_.residual == pytest.approx(first.fit_.residual)
    np.testing.assert_allclose(moved.predict([[1, 2, 0]]), first.predict([[0, 1, 2]]))
    whole = moved.inverse_transform(moved.embedding_)
    np.testing.assert_allclose(whole, moved.tucker_.reconstruct())
    new = moved.transform(np.moveaxis(tensor, 0, 2)[..., :3])
    np.testing.assert_allclose(new, moved.embedding_[:3], atol=1e-8)


def test_labels_are_matched(tensor):
    names = [f"p{place}" for place in range(40)]
    subjects = list("abcdefg")
    data = TensorData.from_array(
        tensor, modes=("who", "what", "day"), labels=(names, subjects, None)
    )
    model = FairTucker(RANKS, method="none", mode="who").fit(data)
    table = data.to_table().sample(20, random_state=0)
    whole = model.inverse_transform(model.embedding_)
    places = [
        (names.index(row.who), subjects.index(row.what), row.day) for row in table.itertuples()
    ]
    np.testing.assert_allclose(model.predict(table), [whole[place] for place in places])
    shuffled = TensorData.from_array(
        tensor[:5, ::-1], modes=("who", "what", "day"), labels=(names[:5], subjects[::-1], None)
    )
    np.testing.assert_allclose(model.transform(shuffled), model.embedding_[:5], atol=1e-8)


def test_new_people_are_embedded_and_scored(model, tensor):
    with pytest.warns(ParafairWarning, match="without regard to fairness"):
        plain = model.transform(tensor[:6])
    shifted = model.transform(tensor[:6], sensitive_features=GROUPS[:6])
    assert plain.shape == shifted.shape == (6, 4)
    assert not np.allclose(plain, shifted)
    assert 0.9 < model.score(tensor[:6]) <= 1
    with pytest.raises(ValueError, match="X must have shape"):
        model.transform(tensor[:, :3], sensitive_features=GROUPS)


def test_a_saved_model_is_the_same(model, tensor, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairTucker.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    np.testing.assert_array_equal(loaded.predict([[1, 2, 3]]), model.predict([[1, 2, 3]]))
    rows = [m.transform(tensor[:4], sensitive_features=GROUPS[:4]) for m in (model, loaded)]
    np.testing.assert_array_equal(*rows)
    with pytest.raises(ValueError, match="has a FairTucker, not a FairCP; use FairTucker.load"):
        FairCP.load(tmp_path / "model")
    assert clone(model).get_params() == model.get_params()


def test_tune_compares_ranks_with_the_ridge_of_the_loss(tensor):
    grid = {"ranks": [(1, 1, 1), RANKS]}
    found = tune(FairTucker(method="none", max_iter=50), tensor, grid=grid)
    assert found.best.settings == {"ranks": RANKS}
    assert found.model.ridge_ == 0
    counts = np.random.default_rng(0).poisson(np.exp((tensor / tensor.std()).clip(-3, 3)))
    quick = FairTucker((1, 1, 1), method="none", loss="poisson", max_iter=50, tol=0.03)
    found = tune(quick, counts, grid={"center": [False, True]})
    assert found.model.ridge_ == quick.fit(counts).ridge_ > 0


@pytest.mark.slow
def test_a_strength_is_selected(tensor):
    model = FairTucker(RANKS, strength="auto", max_leakage=0.2, max_iter=20, tol=1e-3)
    model.fit(tensor, sensitive_features=GROUPS)
    assert model.selection_.passed
    assert isinstance(model.selection_.strength, float)


def test_it_is_certified(model):
    assert 0 < certify(model).leakage("release") <= 0.5


def test_a_frontier_has_tucker_models(tensor, tmp_path):
    split = split_cells(TensorData.from_array(tensor), test_size=0.1, random_state=0)
    quick = {"attackers": ["linear"], "permutations": 3, "folds": 2}
    found = frontier(
        FairTucker(RANKS, max_iter=20, tol=1e-3, ridge=0.0),
        split.train,
        sensitive_features=GROUPS,
        strengths=[0, 3],
        audits=quick,
        X_test=split.test,
        certificates=None,
        out=tmp_path / "curve",
    )
    assert found.points[0].residual < found.points[1].residual
    assert found.points[0].evaluation.value("rmse") < found.baseline.value("rmse")
    again = frontiers.load(tmp_path / "curve")
    model = again.model(again.points[1])
    assert isinstance(model, FairTucker)
    np.testing.assert_allclose(model.embedding_, found.model(found.points[1]).embedding_)
    page = tmp_path / "report.html"
    write_report(again, page)
    assert "mode_2" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": (4, 8, 2)}, "ranks must be at most the sizes of the modes"),
        ({"ranks": (4, 3)}, "one number for each of the 3 modes"),
        ({"ranks": (7, 3, 2)}, "at most the product of the others"),
        ({"ranks": (0, 3, 2)}, "each of ranks must be a whole number"),
        ({"ranks": RANKS, "method": "khsic"}, "not available for FairTucker"),
        ({"ranks": RANKS, "method": "bhattacharyya"}, "not available for FairTucker"),
        ({"ranks": RANKS, "method": "leace"}, "not available for FairTucker"),
        ({"ranks": RANKS, "solver": "gradient"}, "cannot take gradient steps"),
        ({"ranks": RANKS, "init": [1, 2]}, "init of a FairTucker must be one of"),
    ],
)
def test_bad_arguments_are_refused(tensor, arguments, message):
    with pytest.raises(ValueError, match=message):
        FairTucker(**arguments).fit(tensor, sensitive_features=GROUPS)


def test_what_a_tucker_model_does_not_support_is_refused(holes):
    sparse = TensorData.from_array(holes).to_sparse()
    with pytest.raises(ValueError, match="init='svd' needs dense data"):
        FairTucker(RANKS, method="none", ridge=0.0).fit(sparse)


@pytest.mark.filterwarnings("ignore:.*no step decreased the objective:UserWarning")
def test_a_factor_that_can_be_any_rows_hides_nothing_and_says_so(tensor):
    few, groups = tensor[:6], GROUPS[:6]
    with pytest.warns(ParafairWarning, match="ranks has 5 for mode_0, which has 6 indices"):
        FairTucker((5, 5, 2), **QUICK).fit(few, sensitive_features=groups)
    both = {0: GROUPS, 2: np.arange(6) % 2}
    with pytest.warns(ParafairWarning, match="ranks has 6 for mode_2, which has 6 indices"):
        FairTucker((4, 3, 6), **QUICK).fit(tensor, sensitive_features=both)
    # It is the truth: the criterion of whole rows is the same for all of them.
    criterion = Invariant(1.0, rotation_free=True).criterion
    features = SensitiveFeatures.of(groups)
    rows = [torch.from_numpy(tensor[place : place + 6, 0, :5]) for place in (0, 6)]
    values = [float(criterion(features, each).value_and_gradient(each)[0]) for each in rows]
    assert values[0] == pytest.approx(values[1], rel=1e-3)
    # A full basis of a mode without sensitive features is nothing special.
    FairTucker((4, 7, 2), **QUICK).fit(tensor, sensitive_features=GROUPS)


@pytest.mark.filterwarnings("ignore::parafair.errors.ParafairWarning")
def test_a_ridge_that_makes_rows_vanish_leaves_a_model():
    tensor = np.random.default_rng(1).normal(size=(12, 2, 4))
    groups = np.stack([np.arange(12) % 2, np.arange(12) % 3], 1).astype(str)
    data = np.ma.array(tensor, mask=tensor > 1)
    model = FairTucker(ridge=1e300, max_iter=2).fit(data, sensitive_features=groups)
    assert np.isfinite(model.embedding_).all()
