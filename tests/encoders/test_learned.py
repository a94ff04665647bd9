from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score

from parafair import FairCP, SensitiveFeatures, TensorData, datasets, frontier
from parafair.encoders import Learned

QUICK = Learned(hidden=8, steps=30, learning_rate=0.03)


@pytest.fixture(scope="module")
def data():
    data = datasets.synthetic(0, shape=(120, 6, 5), rank=3)
    # Exact data takes many iterations of the plain decomposition.
    noise = np.random.default_rng(0).standard_normal(data.tensor.shape)
    return replace(data, tensor=data.tensor + 0.2 * noise)


@pytest.fixture(scope="module")
def model(data):
    model = FairCP(rank=2, encoder=QUICK, noise=0.3)
    return model.fit(data.tensor, sensitive_features=data.sensitive_features)


@pytest.fixture(scope="module")
def incomplete(data):
    tensor = np.array(data.tensor)
    tensor[np.random.default_rng(0).random(tensor.shape) < 0.4] = np.nan
    return tensor


@pytest.fixture(scope="module")
def model_of_incomplete(data, incomplete):
    model = FairCP(rank=2, encoder=QUICK, noise=0.3)
    return model.fit(incomplete, sensitive_features=data.sensitive_features)


@pytest.fixture(params=["complete", "incomplete"])
def fitted(request, data, model, incomplete, model_of_incomplete):
    """A model and its data."""
    if request.param == "complete":
        return model, np.array(data.tensor)
    return model_of_incomplete, incomplete


def test_rows_of_training_people_are_those_of_the_encoder(fitted):
    model, tensor = fitted
    rows = model.encoder_.encode(TensorData(torch.as_tensor(tensor)))
    np.testing.assert_allclose(rows, model.fit_.noiseless, rtol=1e-5, atol=1e-6)


def test_transform_needs_no_group_and_ignores_other_people(fitted, recwarn):
    model, tensor = fitted
    everybody = model.transform(tensor)
    order = np.random.default_rng(1).permutation(len(tensor))
    np.testing.assert_allclose(model.transform(tensor[order]), everybody[order], atol=1e-6)
    np.testing.assert_allclose(model.transform(tensor[:1]), everybody[:1], atol=1e-6)
    assert not recwarn.list


def test_new_people_have_noise_as_large_as_trained_ones(model, data):
    exact = model.encoder_.encode(TensorData(torch.as_tensor(np.array(data.tensor)))).numpy()
    matrix = model.fit_.noise[0].numpy()
    for released in (model.embedding_, model.transform(data.tensor)):
        noise = (released - exact) @ np.linalg.inv(matrix)
        np.testing.assert_allclose(noise.std(0), 1, atol=0.25)


@pytest.mark.parametrize("settings", [{"encoder": QUICK, "center": True}, {"method": "leace"}])
def test_score_is_about_the_rows_of_transform(data, settings):
    tensor = np.array(data.tensor)
    model = FairCP(rank=2, **settings)
    model.fit(tensor[:90], sensitive_features=data.sensitive_features[:90])
    new = tensor[90:]
    error = np.linalg.norm(new - model.inverse_transform(model.transform(new)))
    centered = new - model.inverse_transform(np.zeros((30, 2)))
    assert model.score(new) == pytest.approx(1 - (error / np.linalg.norm(centered)) ** 2)


def test_the_group_aware_map_stays_available(model, data, tmp_path):
    blind = model.transform(data.tensor)
    aware = model.transform(data.tensor, sensitive_features=data.sensitive_features)
    assert not np.allclose(blind, aware)
    alone = model.transform(data.tensor[:1], sensitive_features=data.sensitive_features[:1])
    np.testing.assert_allclose(alone, aware[:1], rtol=1e-6, atol=1e-8)
    # It follows from released rows, so a folder needs no more than these.
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    np.testing.assert_allclose(
        again.transform(data.tensor, sensitive_features=data.sensitive_features), aware, rtol=1e-8
    )


@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
def test_the_group_aware_map_hides_what_the_encoder_has_left():
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 3000)
    rows = random.standard_normal((3000, 2)) * (1 + 0.5 * groups[:, None]) + groups[:, None]
    matrix = rows @ random.standard_normal((2, 8)) + 0.3 * random.standard_normal((3000, 8))
    # A strength that hides little.
    model = FairCP(2, encoder=QUICK, strength=0.01, tol=1e-2)
    model.fit(matrix[:2000], sensitive_features=groups[:2000])
    new = groups[2000:]
    blind = model.transform(matrix[2000:])
    aware = model.transform(matrix[2000:], sensitive_features=new)

    def advantage(rows):
        attacker = QuadraticDiscriminantAnalysis().fit(rows[::2], new[::2])
        return balanced_accuracy_score(new[1::2], attacker.predict(rows[1::2])) - 0.5

    assert advantage(blind) > 0.15
    assert abs(advantage(aware)) < 0.07  # the standard error is 0.022


def test_numbers_have_no_map_and_move_like_neighbors(data):
    ages = np.random.default_rng(0).random(120)
    model = FairCP(rank=2, encoder=QUICK, noise=0.3).fit(data.tensor, sensitive_features=ages)
    aware = model.transform(data.tensor, sensitive_features=ages)
    assert np.isfinite(aware).all()
    assert not np.allclose(aware, model.transform(data.tensor))


def test_a_stored_model_has_the_same_map(fitted, tmp_path):
    model, tensor = fitted
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.transform(tensor), model.transform(tensor), rtol=1e-10)
    assert loaded.get_params()["encoder"] == QUICK


def test_a_person_without_entries_gets_the_mean_row(model_of_incomplete, incomplete):
    nobody = np.full_like(incomplete[:1], np.nan)
    together = np.concatenate([incomplete[:3], nobody])
    with pytest.warns(UserWarning, match="no observed entries; their rows are the mean"):
        rows = model_of_incomplete.transform(together)
    noise = model_of_incomplete.fit_.noise[0].norm().item()
    mean = model_of_incomplete.embedding_.mean(0)
    assert np.linalg.norm(rows[3] - mean) < 4 * noise
    np.testing.assert_allclose(rows[:3], model_of_incomplete.transform(incomplete[:3]), atol=1e-6)


def test_people_without_features_get_rows_of_the_encoder(model, data):
    known = np.array(data.sensitive_features, dtype=object)
    known[:5] = None
    features = SensitiveFeatures.of(known, missing="exclude")
    rows = model.transform(data.tensor, sensitive_features=features)
    np.testing.assert_allclose(rows[:5], model.transform(data.tensor)[:5])


def test_a_person_without_entries_does_not_change_the_inputs(model, data):
    tensor = np.array(data.tensor)
    tensor[3] = np.nan
    with pytest.warns(UserWarning, match="no observed entries for 1 of 120 indices"):
        other = clone(model).fit(tensor, sensitive_features=data.sensitive_features)
    assert type(other.encoder_.inputs) is type(model.encoder_.inputs)


def test_people_who_do_not_differ_are_refused(data):
    with pytest.raises(ValueError, match="X has the same entries for everybody"):
        FairCP(encoder=QUICK).fit(np.ones((50, 6)), sensitive_features=list("ab" * 25))


def test_a_plain_decomposition_without_differences_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 4))
    zeros = [np.zeros((size, 2)) for size in X.shape]
    with pytest.raises(ValueError, match="gives everybody the same row, so an encoder has nothing"):
        FairCP(2, encoder=QUICK, init=zeros).fit(X, sensitive_features=list("ab" * 10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "blind"}, "encoder must be one of linear, network"),
        ({"encoder": "linear", "method": "khsic"}, "learned with the criterion of method='inv"),
        ({"encoder": "linear", "method": "none"}, "use that method, or leave encoder out"),
    ],
)
def test_encoders_that_cannot_be_learned_are_refused(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        FairCP(**arguments).fit(data.tensor, sensitive_features=data.sensitive_features)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": QUICK, "solver": "block"}, "solver has no effect: encoder=.*; leave it out"),
        (
            {"method": "leace", "init": "svd", "tol": 1e-9},
            "init, tol have no effect: method='leace' of a matrix is a formula; leave them out",
        ),
    ],
)
def test_arguments_without_effect_are_warned_of_once(data, settings, message):
    matrix = np.array(data.tensor).reshape(120, -1)
    with pytest.warns(UserWarning, match=message) as warned:
        FairCP(rank=2, **settings).fit(matrix, sensitive_features=data.sensitive_features)
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_reduction_of_a_tensor_uses_its_solver(data, recwarn):
    model = FairCP(rank=2, method="leace", solver="block", n_init=2, tol=1e-3)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    assert not recwarn.list


def test_features_of_several_modes_are_refused(data):
    features = {0: data.sensitive_features, 1: list("aabbab")}
    with pytest.raises(ValueError, match="encoder='linear' supports one sensitive mode"):
        FairCP(encoder="linear").fit(data.tensor, sensitive_features=features)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": -1}, "hidden must be a whole number from 0 to"),
        ({"steps": 0}, "steps must be a whole number from 1 to"),
        ({"batch_size": 10}, "batch_size must be a whole number of at least 50"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        Learned(**settings)


@pytest.mark.slow
def test_selection_ends_with_an_encoder(data):
    groups = np.array(["a", "b"])[np.random.default_rng(0).integers(0, 2, 120)]
    model = FairCP(rank=2, encoder=QUICK, strength="auto", max_leakage=0.2)
    model.fit(data.tensor, sensitive_features=groups)
    assert model.selection_.passed
    assert model.encoder_ is not None


def test_a_frontier_learns_each_member_with_its_noise(data):
    curve = frontier(
        FairCP(rank=2, encoder=QUICK),
        data.tensor,
        sensitive_features=data.sensitive_features,
        strengths=[10.0],
        noises=[0.1, 0.5],
        audits=None,
    )
    first, second = (curve.model(point) for point in curve.points)
    assert not torch.allclose(first.encoder_.skip, second.encoder_.skip)


def test_new_people_are_certified_with_the_rows_of_the_encoder(model, data):
    random = np.random.default_rng(2)
    new = np.array(data.tensor) + random.standard_normal(data.tensor.shape)
    release = model.exact_release(new, data.sensitive_features)
    expected = model.encoder_.encode(TensorData(torch.as_tensor(new)))
    torch.testing.assert_close(release.rows, expected)
    with pytest.raises(ValueError, match="120 of the 120 people of X_new have the same entries"):
        model.exact_release(np.array(data.tensor), data.sensitive_features)
