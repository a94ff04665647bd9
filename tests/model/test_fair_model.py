import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData, frontier
from parafair.errors import ParafairWarning
from parafair.penalties import Invariant, Transport

SHAPE, RANK = (40, 6, 5), 3
GROUPS = np.array(["a", "b"] * 20)
QUICK = {"max_iter": 200, "tol": 1e-3}


@pytest.fixture(scope="module")
def tensor():
    """Non-negative components; people of one group have more of the first."""
    random = np.random.default_rng(0)
    factors = [random.gamma(1.0, size=(size, RANK)) for size in SHAPE]
    factors[0][:, 0] += 1.5 * (GROUPS == "a")
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    return tensor + 0.05 * tensor.std() * random.random(SHAPE)


@pytest.fixture(scope="module")
def holes(tensor):
    return np.where(np.random.default_rng(1).random(SHAPE) < 0.2, np.nan, tensor)


@pytest.mark.parametrize(
    "method", ["none", "invariant", "hsic", "khsic", "fatr", "transport", Transport(leakage=0.1)]
)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.filterwarnings("ignore:with noise=0")
@pytest.mark.filterwarnings("ignore:transform embeds")
@pytest.mark.filterwarnings("ignore:FairCP after 30 iterations")
@pytest.mark.slow
def test_all_factors_and_all_rows_of_new_people_are_non_negative(tensor, holes, method, missing):
    data = holes if missing else tensor
    model = FairCP(RANK, method=method, non_negative=True, noise=0.0, ridge=0.1, **QUICK)
    model.fit(data, sensitive_features=GROUPS)
    assert all((factor >= 0).all() for factor in model.cp_.factors)
    for features in (None, GROUPS[:7]):
        rows = model.transform(data[:7], sensitive_features=features)
        assert (rows >= 0).all()
        assert rows.any()


@pytest.mark.filterwarnings("ignore:with noise=0")
def test_refined_rows_of_new_people_are_non_negative(tensor):
    model = FairCP(RANK, strength=3.0, non_negative=True, noise=0.0, **QUICK)
    model.fit(tensor, sensitive_features=GROUPS)
    rows = model.transform(tensor, sensitive_features=GROUPS, refine=True)
    assert (rows >= 0).all()


def test_new_people_have_non_negative_least_squares_rows(tensor):
    from scipy.optimize import nnls

    model = FairCP(RANK, method="none", non_negative=True).fit(tensor)
    design = np.einsum("jr,kr->jkr", *(np.asarray(f) for f in model.cp_.factors[1:]))
    random = np.random.default_rng(2).normal(size=(5, *SHAPE[1:])).clip(-1)
    new = np.concatenate([tensor[:3], random])
    expected = [nnls(design.reshape(-1, RANK), person.ravel())[0] for person in new]
    np.testing.assert_allclose(model.transform(new), expected, atol=1e-8)


def test_noise_is_added_to_non_negative_rows(tensor):
    model = FairCP(RANK, strength=3.0, non_negative=True, noise=0.5, **QUICK)
    model.fit(tensor, sensitive_features=GROUPS)
    assert (model.fit_.noiseless >= 0).all()
    assert (model.embedding_ < 0).any()
    assert all((factor >= 0).all() for factor in model.cp_.factors[1:])


def test_chosen_modes_are_non_negative(tensor):
    data = TensorData.from_array(tensor - tensor.mean(), modes=("who", "what", "day"))
    model = FairCP(RANK, method="none", non_negative=("who", 2)).fit(data)
    people, subjects, days = model.cp_.factors
    assert (people >= 0).all()
    assert (days >= 0).all()
    assert (subjects < 0).any()
    centered = FairCP(RANK, method="none", non_negative=[1], center=True).fit(data)
    assert (centered.cp_.factors[1] >= 0).all()


def test_no_constraint_fits_at_least_as_well(tensor):
    free = FairCP(RANK, method="none", n_init=3, tol=1e-7).fit(tensor)
    model = FairCP(RANK, method="none", n_init=3, tol=1e-7, non_negative=True).fit(tensor)
    assert free.fit_.residual <= model.fit_.residual * (1 + 1e-6)
    assert model.fit_.residual < 0.05


def test_a_saved_non_negative_model_is_the_same(tensor, tmp_path):
    model = FairCP(RANK, strength=3.0, non_negative=(0, 1), **QUICK)
    model.fit(tensor, sensitive_features=GROUPS)
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.non_negative == (0, 1)
    assert loaded.training_.non_negative
    rows = [m.transform(tensor[:4], sensitive_features=GROUPS[:4]) for m in (model, loaded)]
    np.testing.assert_array_equal(*rows)


def test_a_frontier_has_non_negative_models(tensor, tmp_path):
    found = frontier(
        FairCP(RANK, non_negative=True, **QUICK),
        tensor,
        sensitive_features=GROUPS,
        strengths=[0, 3],
        audits=None,
        certificates=None,
        out=tmp_path,
    )
    for point in found.points:
        assert all((factor >= 0).all() for factor in point.fit.cp.factors[1:])
        rows = point.fit.noiseless if point.fit.noise else point.fit.cp.factors[0]
        assert (rows >= 0).all()
    assert found.points[0].residual < found.points[1].residual
    assert found.model(found.points[1]).non_negative is True


def test_initial_factors_have_the_signs_of_the_modes(tensor):
    for init in ("uniform", "normal", "svd"):
        model = FairCP(RANK, method="none", init=init, non_negative=(0, 1), tol=1e-3)
        model.fit(tensor)
        assert model.fit_.residual < 0.2
        assert (model.cp_.factors[0] >= 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"non_negative": "people"}, "non_negative must be True, False, or modes"),
        ({"non_negative": None}, "non_negative must be True, False, or modes"),
        ({"non_negative": (0.5,)}, "each mode of non_negative must be a number or a name"),
        ({"non_negative": (7,)}, "each mode of non_negative must be between 0 and 2"),
        ({"non_negative": True, "center": True}, "cannot be used with center=True"),
        ({"non_negative": True, "method": "leace"}, "whose rows have both signs"),
        ({"non_negative": True, "method": "moment-matching"}, "whose rows have both signs"),
        (
            {"non_negative": True, "method": "mean-matching", "solver": "block"},
            "is about predicted scores, needs solver='lbfgs'",
        ),
        ({"non_negative": True, "encoder": "linear"}, "cannot be used with encoder='linear'"),
        (
            {"non_negative": True, "method": "hsic", "solver": "gradient"},
            "cannot take gradient steps",
        ),
        (
            {"non_negative": True, "init": [np.full((n, 3), -1.0) for n in SHAPE]},
            "init must have no negative entries",
        ),
    ],
)
def test_what_cannot_be_non_negative_is_refused(tensor, arguments, message):
    with pytest.raises(ValueError, match=message):
        FairCP(RANK, **arguments).fit(tensor, sensitive_features=GROUPS)


def test_negative_entries_are_refused(tensor):
    with pytest.raises(ValueError, match="X must have no negative entries"):
        FairCP(RANK, method="none", non_negative=True).fit(tensor - 1)


def test_people_without_entries_have_the_mean_row(holes):
    data = holes.copy()
    data[3] = np.nan
    with pytest.warns(ParafairWarning, match="no observed entries"):
        model = FairCP(RANK, method="none", non_negative=True, ridge=0.1).fit(data)
    others = np.delete(model.embedding_, 3, 0)
    np.testing.assert_allclose(model.embedding_[3], others.mean(0))
    assert torch.as_tensor(model.embedding_ >= 0).all()


def test_objectives_of_different_chunks_are_not_compared():
    # Rounding decides which fits end above their first objective; of these four, most do.
    rises = [_rise_in_chunks(seed) for seed in (8, 11, 13, 22)]  # a warning is an error
    assert max(rises) > 0


def _rise_in_chunks(seed):
    random = np.random.default_rng(seed)
    groups = random.integers(0, 2, 200)
    matrix = random.standard_normal((200, 2)) @ random.standard_normal((2, 6))
    matrix += 0.1 * random.standard_normal((200, 6))
    model = FairCP(2, method=Invariant(30.0, chunk_size=50), random_state=0, max_iter=20, tol=0)
    model.fit(matrix, sensitive_features=groups)
    return model.fit_.before_noise.objective - model.fit_.history[0].objective


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"non_negative": ("whoo",)}, "each mode of non_negative must be one of mode_0, mode_1"),
        ({"center": True, "loss": "poisson-identity"}, "leave center out, or use a loss with a"),
    ],
)
def test_modes_that_cannot_be_non_negative_are_named(settings, match):
    with pytest.raises(ValueError, match=match):
        FairCP(2, method="none", **settings).fit(np.ones((4, 3, 2)))
