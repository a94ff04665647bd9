"""Models whose rows are those of an encoder, from the fit to new people."""

import numpy as np
import pytest
import torch

from parafair import FairCP, ParafairWarning, SensitiveFeatures, TensorData, certify, frontier
from parafair.encoders import KernelPerezSuay
from parafair.encoders.registry import REDUCTIONS
from parafair.frontiers import load

METHODS = list(REDUCTIONS)
RANDOM = np.random.default_rng(0)
GROUPS = RANDOM.integers(0, 2, 90)
FACTORS = [RANDOM.standard_normal((size, 4)) for size in (90, 5, 4)]
FACTORS[0][:, 0] += GROUPS
TENSOR = np.einsum("ir,jr,kr->ijk", *FACTORS) + 0.1 * RANDOM.standard_normal((90, 5, 4))
MATRIX = TENSOR[:, :, 0] @ RANDOM.standard_normal((5, 7)) + RANDOM.standard_normal((90, 7)) + 1


def fitted(method, X=MATRIX, groups=GROUPS, rank=3, **settings):
    return FairCP(rank, method=method, **settings).fit(X, sensitive_features=groups)


def residual(model, X):
    return np.linalg.norm(X - model.inverse_transform(model.embedding_)) / np.linalg.norm(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("X", [MATRIX, TENSOR], ids=["matrix", "tensor"])
def test_the_embedding_is_that_of_the_encoder(method, X):
    model = fitted(method, X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)
    assert model.fit_.residual == pytest.approx(residual(model, X), rel=1e-9)
    assert model.fit_.shifts is None
    known = GROUPS - GROUPS.mean()
    spread = model.embedding_.std(0)
    assert (np.abs(known @ model.embedding_) / len(X) / spread).max() < 1e-6
    # The other factors are the best ones for these rows.
    assert model.fit_.residual >= fitted("none", X).fit_.residual - 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_rows_do_not_depend_on_the_group_or_on_other_people(method):
    model = fitted(method)
    new = MATRIX[:9] + 0.1
    rows = model.transform(new)
    np.testing.assert_allclose(model.transform(new, sensitive_features=GROUPS[:9]), rows)
    np.testing.assert_allclose(model.transform(new, sensitive_features=1 - GROUPS[:9]), rows)
    order = np.random.default_rng(1).permutation(9)
    np.testing.assert_allclose(model.transform(new[order]), rows[order])
    np.testing.assert_allclose(np.vstack([model.transform(new[[i]]) for i in range(9)]), rows)


@pytest.mark.parametrize("method", METHODS)
def test_permuting_the_people_of_the_fit_permutes_the_rows(method):
    order = np.random.default_rng(1).permutation(90)
    rows, others = (
        fitted(method).embedding_,
        fitted(method, MATRIX[order], GROUPS[order]).embedding_,
    )
    signs = np.sign((rows[order] * others).sum(0))
    np.testing.assert_allclose(others * signs, rows[order], rtol=1e-5, atol=1e-6 * rows.std())


@pytest.mark.slow
def test_a_tensor_has_the_best_decomposition_in_the_span():
    """Against all factors by gradient steps on the rows' coordinates."""
    model = fitted("fair-pca", TENSOR, n_init=5, tol=1e-9)
    basis = np.linalg.qr(model.embedding_)[0]
    small = np.tensordot(basis.T, TENSOR, 1)
    plain = FairCP(3, method="none", n_init=5, tol=1e-9).fit(small)
    lost = np.linalg.norm(TENSOR) ** 2 - np.linalg.norm(small) ** 2
    expected = (lost + plain.reconstruction_err_**2) ** 0.5
    assert model.reconstruction_err_ == pytest.approx(expected, rel=1e-5)
    history = [entry.objective for entry in model.fit_.history]
    assert history[-1] <= history[0]


@pytest.mark.parametrize("mode", [1, 2])
def test_people_may_be_any_mode(mode):
    people = np.moveaxis(TENSOR, 0, mode)
    model = FairCP(3, method="leace", mode=mode).fit(people, sensitive_features=GROUPS)
    np.testing.assert_allclose(model.transform(people), model.embedding_, atol=1e-10)
    known = GROUPS - GROUPS.mean()
    assert np.abs(known @ model.embedding_).max() < 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.filterwarnings("ignore:the folder contains the entries")
def test_a_saved_model_has_the_same_map(method, center, tmp_path):
    model = fitted(method, TENSOR, center=center, noise=0.2)
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    new = TENSOR[:5] + 0.1
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    assert repr(loaded.encoder_) == repr(model.encoder_)
    model.save(tmp_path / "model", overwrite=True)


def test_noise_is_added_once_to_training_people_and_anew_to_others():
    plain, noisy = (fitted("fair-pca", noise=level) for level in (0, 0.3))
    np.testing.assert_allclose(noisy.fit_.noiseless, plain.embedding_)
    again = noisy.transform(MATRIX)
    added = [rows - plain.embedding_ for rows in (noisy.embedding_, again)]
    for noise in added:
        np.testing.assert_allclose(noise.std(0) / plain.embedding_.std(0), 0.3, rtol=0.3)
    assert np.abs(np.corrcoef(added[0].T, added[1].T)[:3, 3:]).max() < 0.4
    np.testing.assert_array_equal(noisy.transform(MATRIX), again)


def test_new_people_are_certified():
    train, new = slice(0, 60), slice(60, 90)
    model = fitted("fair-pca", MATRIX[train], GROUPS[train], rank=2, noise=1.0)
    found = certify(model, MATRIX[new], GROUPS[new], draws=500)
    assert found.leakage("population") > 0
    assert certify(model, draws=500).leakage("release") > 0
    with pytest.raises(ValueError, match="have the same entries as a person of the training"):
        certify(model, MATRIX[train], GROUPS[train], draws=500)


def test_people_without_features_and_people_without_entries():
    features = GROUPS.astype(object)
    features[3] = None
    holed = MATRIX.copy()
    holed[5] = np.nan
    known = SensitiveFeatures.of(features, missing="exclude")
    with pytest.warns(ParafairWarning, match="no observed entries for 1 of 90"):
        model = fitted("fair-pca", holed, known)
    others = np.delete(np.arange(90), [3, 5])
    expected = fitted("fair-pca", MATRIX[others], GROUPS[others])
    rows = expected.transform(np.delete(MATRIX, 5, 0))
    np.testing.assert_allclose(np.abs(np.delete(model.embedding_, 5, 0)), np.abs(rows))
    np.testing.assert_allclose(model.embedding_[5], np.delete(model.embedding_, 5, 0).mean(0))
    with pytest.warns(ParafairWarning, match="1 of 90 new people have no observed entries"):
        again = model.transform(holed)
    np.testing.assert_allclose(again, model.embedding_, atol=1e-12)
    # People without features are no leak here.
    new = SensitiveFeatures.of(features[:8], missing="exclude")
    np.testing.assert_allclose(model.transform(MATRIX[:8], sensitive_features=new)[4], again[4])


def test_a_fit_needs_all_entries_and_new_people_only_known_columns():
    holed = MATRIX.copy()
    holed[4, 2] = np.nan
    for method in METHODS:
        with pytest.raises(ValueError, match="mode_0 4 has no entry at mode_1 2"):
            fitted(method, holed)
    names = ["who", "what"], (range(90), list("abcdefg"))
    data = TensorData.from_array(MATRIX, modes=names[0], labels=names[1])
    model = fitted("leace", data)
    other = data.take("what", [6, 5, 4, 3, 2, 1, 0])
    np.testing.assert_allclose(model.transform(other), model.embedding_, atol=1e-12)
    holed = np.array(MATRIX)
    holed[:, 6] = np.nan
    fewer = model.transform(data.take("what", range(6)))
    np.testing.assert_allclose(fewer, model.transform(holed), atol=1e-12)
    new = TensorData.from_array(MATRIX, modes=names[0], labels=(range(90), list("abcdefx")))
    with pytest.raises(ValueError, match="mode 'what' has no label x"):
        model.transform(new)


def test_bad_settings_are_refused_before_any_work():
    with pytest.raises(ValueError, match="method='leace' needs sensitive_features"):
        FairCP(2, method="leace").fit(MATRIX)
    several = {0: GROUPS, 1: list("abababa")}
    with pytest.raises(
        ValueError, match=r"method='leace' supports one .* the modes \[0, 1\]; pass"
    ):
        FairCP(2, method="leace").fit(MATRIX, sensitive_features=several)
    with pytest.raises(ValueError, match="strength=1.0 was given, but method='leace' has no"):
        fitted("leace", strength=1.0)
    with pytest.raises(ValueError, match="strength='auto' needs a penalty with a `criterion`"):
        fitted("leace", strength="auto")
    with pytest.raises(ValueError, match="refine=True needs a scale-free penalty"):
        fitted("leace").transform(MATRIX, sensitive_features=GROUPS, refine=True)


def test_a_frontier_keeps_the_encoders(tmp_path):
    settings = {"sensitive_features": GROUPS, "limit": False, "audits": None, "noises": [0.0, 0.4]}
    for method in ("fair-pca", KernelPerezSuay(landmarks=50)):
        found = frontier(FairCP(3, method=method), TENSOR, **settings, out=tmp_path / "curve")
        assert len(found.points) == 2
    loaded = load(tmp_path / "curve")
    assert len(loaded.points) == 4
    for point in loaded.points:
        model = loaded.model(point)
        assert model.encoder_ is not None
        rows = model.transform(TENSOR[:4])
        if not point.member.noise:
            np.testing.assert_allclose(rows, model.embedding_[:4], atol=1e-12)


def test_single_precision_and_ridge():
    model = fitted("fair-pca", TENSOR.astype(np.float32))
    assert model.embedding_.dtype == np.float32
    assert model.encoder_.weights.dtype == torch.float64
    assert fitted("fair-pca", ridge=1.0).fit_.residual > fitted("fair-pca").fit_.residual
