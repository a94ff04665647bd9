import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, FairTucker, TensorData, audit, certify, frontier, tune
from parafair.audits import Verdict
from parafair.errors import ParafairWarning

FEW = {"method": "none", "init": "normal", "tol": 1e-3, "max_iter": 100}


def draw(seed=0, n=60, gap=0.0):
    """A tensor and a table with the same rows of people, in two groups; and the groups."""
    random = np.random.default_rng(seed)
    groups = random.integers(0, 2, n)
    rows = random.normal(size=(n, 3))
    rows[:, 0] += gap * (groups - 0.5)
    tensor = np.einsum("ir,jr,kr->ijk", rows, *(random.normal(size=(m, 3)) for m in (8, 6)))
    table = rows @ random.normal(size=(3, 5))
    tensor += 0.1 * tensor.std() * random.normal(size=tensor.shape)
    return tensor, table + 0.1 * table.std() * random.normal(size=table.shape), groups


def thin(tensor, share, seed=1):
    """The tensor with this share of its entries, all others missing."""
    kept = np.random.default_rng(seed).random(tensor.shape) < share
    return np.where(kept, tensor, np.nan)


@pytest.fixture(scope="module")
def fitted():
    """A model of a tensor and a table, its data, and the labels of its people."""
    tensor, table, _ = draw()
    names = [f"p{i:02}" for i in range(len(tensor))]
    columns = list("vwxyz")
    data = TensorData.from_array(
        thin(tensor, 0.7), modes=("who", "what", "when"), labels=(names, None, None)
    )
    side = pd.DataFrame(100 + 20 * table, index=names, columns=columns)
    return FairCP(3, ridge=0.1, **FEW).fit(data, side=side), data, side


def test_side_information_is_predicted_in_its_units(fitted):
    model, _, side = fitted
    error = np.linalg.norm(model.predict_side() - side) / np.linalg.norm(side - side.mean())
    assert error < 0.15
    assert model.fit_.side_residual == pytest.approx(error, abs=0.02)
    assert model.side_factor_.shape == (5, 3)
    np.testing.assert_allclose(model.predict_side(model.embedding_[:2]), model.predict_side()[:2])


def test_order_of_the_table_does_not_matter(fitted):
    model, data, side = fitted
    other = FairCP(3, ridge=0.1, **FEW).fit(data, side=side.iloc[::-1])
    assert np.array_equal(other.embedding_, model.embedding_)


def test_rows_of_a_data_frame_are_matched_by_its_index():
    tensor, table, _ = draw()
    names = [f"p{i}" for i in range(60)]
    matrix = pd.DataFrame(tensor[:, :, 0], index=names)
    side = pd.DataFrame(table, index=names)
    model = FairCP(2, **FEW).fit(matrix, side=side)
    again = FairCP(2, **FEW).fit(matrix, side=side.iloc[::-1])
    assert np.array_equal(again.embedding_, model.embedding_)
    with pytest.raises(ValueError, match="60 of 60 people whom X does not have, such as q0"):
        model.fit(matrix, side=side.rename(index=lambda name: f"q{name[1:]}"))


def test_rows_with_a_shuffled_numbered_index_are_matched_by_it():
    tensor, table, _ = draw()
    matrix, side = pd.DataFrame(tensor[:, :, 0]), pd.DataFrame(table)
    order = np.random.default_rng(0).permutation(60)
    model = FairCP(2, **FEW).fit(matrix, side=side)
    for again in (
        FairCP(2, **FEW).fit(matrix, side=side.loc[order]),
        tune(FairCP(**FEW), matrix, grid={"rank": [2]}, side=side.loc[order]).model,
    ):
        assert np.allclose(again.embedding_, model.embedding_)
    shuffled = FairCP(2, **FEW).fit(matrix.loc[order], side=side.loc[order])
    again = FairCP(2, **FEW).fit(matrix.loc[order], side=side)
    assert np.array_equal(again.embedding_, shuffled.embedding_)


def test_permuting_people_permutes_their_rows(fitted):
    model, data, side = fitted
    places = np.random.default_rng(0).permutation(60)
    moved = [model.cp_.factors[0][places], *model.cp_.factors[1:]]
    settings = {**FEW, "init": list(model.cp_.factors), "max_iter": 5, "tol": 0.0, "ridge": 0.1}
    one = FairCP(3, **settings).fit(data, side=side)
    two = FairCP(3, **{**settings, "init": moved}).fit(data.take(0, places), side=side)
    np.testing.assert_allclose(two.embedding_, one.embedding_[places], rtol=1e-6, atol=1e-9)


def test_a_saved_model_is_equal(fitted, tmp_path):
    model, data, side = fitted
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_side(), model.predict_side())
    assert loaded.fit_.side_residual == model.fit_.side_residual
    assert loaded.fit_.history[-1] == model.fit_.history[-1]
    new = {"side": side.iloc[:9]}
    some = data.take(0, np.arange(9))
    assert np.array_equal(loaded.transform(some, **new), model.transform(some, **new))


def test_people_without_entries_get_rows_from_the_table(fitted):
    model, data, side = fitted
    np.testing.assert_allclose(
        model.transform(data, side=side), model.fit_.cp.factors[0], rtol=0.1, atol=0.1
    )
    nothing = data.keep([0])
    with pytest.warns(ParafairWarning, match="59 of 60 new people have no observed entries"):
        model.transform(nothing)
    rows = model.transform(nothing, side=side)
    scale = np.abs(model.embedding_).std()
    assert np.sqrt(((rows - model.embedding_) ** 2).mean()) < 0.3 * scale
    unknown = side.copy()
    unknown.iloc[30:] = np.nan
    with pytest.warns(ParafairWarning, match="of 60 new people have no observed entries"):
        partly = model.transform(nothing, side=unknown)
    np.testing.assert_allclose(partly[31], model.embedding_.mean(0))


def test_people_who_are_only_in_the_table_are_fitted():
    tensor, table, _ = draw()
    holes = tensor.copy()
    holes[5] = np.nan
    model = FairCP(3, ridge=0.0, **FEW).fit(holes, side=table)
    found = model.inverse_transform(model.embedding_)[5]
    assert np.linalg.norm(found - tensor[5]) < 0.5 * np.linalg.norm(tensor[5])


def test_with_a_table_a_sparse_tensor_is_completed_better():
    tensor, table, _ = draw(3, n=100)
    holes = thin(tensor, 0.1)
    hidden = np.isnan(holes)
    errors = []
    for side in (None, table):
        model = FairCP(3, ridge=0.1, n_init=3, **FEW).fit(holes, side=side)
        left = (model.inverse_transform(model.embedding_) - tensor)[hidden]
        errors.append(np.linalg.norm(left) / np.linalg.norm(tensor[hidden]))
    assert errors[1] < 0.3 < 0.6 < errors[0]


def test_at_weight_zero_the_embedding_is_that_without_a_table():
    tensor, table, _ = draw()
    without = FairCP(3, **FEW).fit(tensor)
    model = FairCP(3, side_weight=0, **FEW).fit(tensor, side=table)
    assert np.array_equal(model.embedding_, without.embedding_)
    assert model.fit_.objective == without.fit_.objective
    assert model.fit_.side_residual < 0.2
    assert np.array_equal(model.transform(tensor, side=table), without.transform(tensor))


def test_a_column_that_is_a_sensitive_feature_is_named():
    tensor, table, groups = draw()
    random = np.random.default_rng(0)
    noisy = groups + 0.05 * random.normal(size=60)
    columns = pd.DataFrame(table, columns=list("vwxyz")).assign(gender=groups, pay=noisy)
    quick = {"method": "none", "tol": 0.0, "max_iter": 3}
    with pytest.warns(ParafairWarning, match=r"determine .*'sensitive' \(gender, pay\)"):
        FairCP(3, **quick).fit(tensor, sensitive_features=groups, side=columns)
    FairCP(3, **quick).fit(tensor, sensitive_features=groups, side=table)  # no warning


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"method": "khsic"}, "a penalty that depends on the scale"),
        ({"method": "mean-matching"}, "a method about predicted scores"),
        ({"method": "fair-pca"}, "whose rows are those of an encoder"),
        ({"encoder": "network"}, "an encoder, which maps the entries of X alone"),
        ({"solver": "gradient", "method": "none"}, "solver='gradient'"),
    ],
)
def test_what_does_not_go_with_a_table_is_refused_before_the_data_is_read(settings, match):
    with pytest.raises(ValueError, match=f"side cannot be used with .*{match}"):
        FairCP(3, **settings).fit(None, side=np.ones((4, 2)))


@pytest.mark.slow
def test_a_ridge_is_selected_with_the_table():
    tensor, table, _ = draw(3, n=100)
    holes = thin(tensor, 0.1)
    hidden = np.isnan(holes)
    model = FairCP(3, n_init=3, **FEW).fit(holes, side=table)
    left = (model.inverse_transform(model.embedding_) - tensor)[hidden]
    # Without a ridge, fits with a table overfit late.
    assert model.ridge_ > 0
    assert np.linalg.norm(left) < 0.5 * np.linalg.norm(tensor[hidden])


@pytest.mark.parametrize("weight", [-1, np.inf, np.nan, "1", None, True])
def test_a_weight_is_a_finite_number_of_at_least_zero(weight):
    with pytest.raises((ValueError, TypeError), match="side_weight must be"):
        FairCP(3, side_weight=weight).fit(None)


def test_models_without_side_information_take_none():
    tensor, table, _ = draw()
    model = FairCP(2, **FEW).fit(tensor)
    with pytest.raises(ValueError, match="fitted without side information: omit side"):
        model.transform(tensor, side=table)
    with pytest.raises(ValueError, match="fitted without side information: rows predict none"):
        model.predict_side()


def test_predict_side_is_a_data_frame_on_demand(fitted):
    model, _, side = fitted
    frame = model.set_output(transform="pandas").predict_side()
    model.set_output(transform="default")
    assert list(frame.columns) == list(side.columns)
    assert list(frame.index) == list(side.index)
    with pytest.raises(ValueError, match="rows must have 3 columns"):
        model.predict_side(np.ones((2, 4)))


def test_noise_of_new_people_depends_on_their_side_information():
    tensor, table, groups = draw()
    model = FairCP(3, method="none", noise=0.1, tol=0.0, max_iter=3)
    model.fit(tensor, sensitive_features=groups, side=table)
    twice, both = np.repeat(tensor[:1], 2, 0), np.stack([table[0], table[0] + 1e-9])
    one, two = model.transform(twice, side=both)
    assert np.abs(one - two).max() > 1e-3 * np.abs(one).max()


@pytest.mark.parametrize("loss", ["squared", "bernoulli"])
def test_a_certificate_of_new_people_is_about_rows_with_their_side_information(loss):
    tensor, table, groups = draw()
    table = table if loss == "squared" else (table > 0).astype(float)
    model = FairCP(3, method="none", noise=0.5, tol=0.0, max_iter=3, side_loss=loss)
    model.fit(tensor[:40], sensitive_features=groups[:40], side=table[:40])
    new = (tensor[40:], groups[40:])
    release = model.exact_release(*new, table[40:])
    # The rows of `transform`, with the noise of the new people alone between them.
    rows = model.transform(new[0], sensitive_features=new[1], side=table[40:])
    left = rows - release.rows.numpy()
    spread = np.linalg.lstsq(release.noise.numpy().T, left.T, rcond=None)[0]
    assert 0.7 < spread.std() < 1.3
    assert not np.allclose(release.rows, model.exact_release(*new, 1 - table[40:]).rows)
    notes = certify(model, *new, side=table[40:], draws=100).notes
    assert any("entries and their side information" in note for note in notes)
    with pytest.raises(ValueError, match="have the same entries as a person of the training"):
        certify(model, tensor[:20], groups[:20], side=table[:20], draws=100)
    with pytest.raises(ValueError, match="side is missing: the model was fitted with side"):
        certify(model, *new)
    with pytest.raises(ValueError, match="side was given without X_new"):
        certify(model, side=table[40:])


def test_held_out_people_of_a_guarantee_need_side_information_too():
    tensor, table, groups = draw()
    with pytest.raises(ValueError, match="held_out has no side information"):
        FairCP(3, strength="auto", guarantee="population").fit(
            tensor, sensitive_features=groups, side=table, held_out=(tensor, groups)
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_fair_fit_hides_what_a_table_reveals(seed):
    tensor, table, groups = draw(seed, n=150, gap=1.5)
    leak = groups + 0.5 * np.random.default_rng(seed).normal(size=150)
    side = np.column_stack([table, leak])
    verdicts = []
    for method in ("none", "invariant"):
        model = FairCP(3, method=method).fit(tensor, sensitive_features=groups, side=side)
        found = audit(model.embedding_, sensitive_features=groups)
        verdicts.append(found.verdict(0.1))
    assert verdicts[0] is Verdict.LEAKS
    assert verdicts[1] is not Verdict.LEAKS


@pytest.mark.slow
def test_frontiers_tuning_and_tucker_models_take_a_table(tmp_path):
    tensor, table, groups = draw(gap=1.5)
    model = FairTucker((3, 3, 3), tol=1e-2, max_iter=20)
    curve = frontier(
        model,
        tensor,
        sensitive_features=groups,
        side=table,
        strengths=(0.0, 3.0),
        audits=None,
        limit=False,
        out=tmp_path / "curve",
    )
    own = curve.model(curve.points[-1])
    assert own.predict_side().shape == table.shape
    assert own.tucker_.ranks == (3, 3, 3)
    with pytest.raises(ValueError, match="holds results with other settings .*side"):
        frontier(
            model,
            tensor,
            sensitive_features=groups,
            side=2 * table + 1e-3 * tensor[:, 0, :5],
            strengths=(0.0, 3.0),
            audits=None,
            limit=False,
            out=tmp_path / "curve",
        )
    chosen = tune(
        FairTucker((2, 2, 2), method="none"),
        tensor,
        grid={"ranks": [(1, 1, 1), (3, 3, 3)]},
        side=table,
    )
    assert chosen.best.settings == {"ranks": (3, 3, 3)}
    assert chosen.model.fit_.side_residual < 0.2
