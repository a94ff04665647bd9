import numpy as np
import pandas as pd
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.encoders import Learned
from parafair.encoders.group_inputs import GroupInputs
from parafair.encoders.inputs import PEOPLE_PER_COMPONENT
from parafair.encoders.linear import LinearEncoder

KNOWN = Learned(hidden=8, steps=20, learning_rate=0.03, knows_group=True)


def sample(people=160, missing=0.0):
    random = np.random.default_rng(0)
    groups = np.array(["a", "b", "c"])[random.integers(0, 3, people)]
    tensor = random.standard_normal((people, 4)) @ random.standard_normal((4, 9))
    tensor = tensor + (groups == "b")[:, None] + 0.3 * random.standard_normal(tensor.shape)
    tensor[random.random(tensor.shape) < missing] = np.nan
    return tensor, groups


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["complete", "incomplete"])
def fitted(request):
    """A model that knows the group, new people and their groups."""
    tensor, groups = sample(missing=request.param)
    model = FairCP(rank=2, encoder=KNOWN).fit(tensor[:120], sensitive_features=groups[:120])
    return model, tensor[120:], groups[120:]


def identity(columns):
    eye, zero = torch.eye(columns, dtype=torch.float64), torch.zeros(columns, dtype=torch.float64)
    return LinearEncoder(0, zero, eye, zero)


def test_inputs_are_entries_codes_and_their_products():
    random = np.random.default_rng(0)
    group, age = random.permutation(["x", "y", "z"] * 40), random.uniform(20, 60, 120)
    features = SensitiveFeatures.of(pd.DataFrame({"group": group, "age": age}))
    entries = random.standard_normal((120, 3))
    inputs = GroupInputs.of(identity(3), 3, features)
    found = inputs.with_features(features).encode(TensorData(torch.as_tensor(entries)))
    indicators = np.stack([group == each for each in "xyz"], 1).astype(float)
    codes = np.column_stack([indicators - indicators.mean(0), (age - age.mean()) / age.std()])
    assert inputs.products == 40 // PEOPLE_PER_COMPONENT
    products = [entries[:, [k]] * codes for k in range(inputs.products)]
    np.testing.assert_allclose(found, np.column_stack([entries, codes, *products]))


def test_people_without_features_have_codes_of_zero():
    groups = np.array(["a", "b"] * 50, object)
    groups[3] = None
    features = SensitiveFeatures.of(groups, missing="exclude")
    inputs = GroupInputs.of(identity(2), 2, features).with_features(features)
    found = inputs.encode(TensorData(torch.ones(100, 2, dtype=torch.float64)))
    assert found[3, 2:].tolist() == [0.0] * (found.shape[1] - 2)
    assert (found[4, 2:] != 0).all()


def test_a_row_depends_on_entries_and_group_of_its_person_alone(fitted):
    model, new, groups = fitted
    rows = model.transform(new, sensitive_features=groups)
    order = np.random.default_rng(1).permutation(len(new))
    again = model.transform(new[order], sensitive_features=groups[order])
    np.testing.assert_allclose(again, rows[order], atol=1e-10)
    alone = model.transform(new[:1], sensitive_features=groups[:1])
    np.testing.assert_allclose(alone, rows[:1], atol=1e-10)
    other = model.transform(new, sensitive_features=np.roll(groups, 1))
    changed = groups != np.roll(groups, 1)
    assert (np.abs(other - rows).max(1) > 1e-6).tolist() == changed.tolist()


def test_a_stored_model_has_the_same_map(fitted, tmp_path):
    model, new, groups = fitted
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    rows = model.transform(new, sensitive_features=groups)
    found = loaded.transform(new, sensitive_features=groups)
    np.testing.assert_allclose(found, rows, rtol=1e-10)
    assert loaded.get_params()["encoder"] == KNOWN


def test_new_people_are_certified_with_the_rows_of_the_encoder(fitted):
    model, new, groups = fitted
    features = SensitiveFeatures.of(groups)
    encoder = model.encoder_.with_features(features)
    expected = encoder.encode(TensorData.from_array(new))
    torch.testing.assert_close(model.exact_release(new, groups).rows, expected)


def test_rows_of_training_people_are_those_of_the_encoder(fitted):
    model, _, _ = fitted
    incomplete = not model.encoder_.needs_all_entries
    tensor, groups = sample(missing=0.3 if incomplete else 0.0)
    encoder = model.encoder_.with_features(SensitiveFeatures.of(groups[:120]))
    rows = encoder.encode(TensorData.from_array(tensor[:120]))
    np.testing.assert_allclose(rows, model.fit_.noiseless, rtol=1e-5, atol=1e-6)


def test_what_the_encoder_cannot_do_is_refused(fitted):
    model, new, groups = fitted
    with pytest.raises(ValueError, match="sensitive_features are missing, but the encoder"):
        model.transform(new)
    lacking = groups.astype(object)
    lacking[2] = None
    features = SensitiveFeatures.of(lacking, missing="exclude")
    with pytest.raises(ValueError, match="1 of 40 people lack sensitive features"):
        model.transform(new, sensitive_features=features)
    with pytest.raises(ValueError, match="refine=True changes least-squares rows"):
        model.transform(new, sensitive_features=groups, refine=True)
    with pytest.raises(ValueError, match="needs the sensitive features of the people"):
        model.encoder_.encode(TensorData.from_array(new))


def test_score_needs_no_features(fitted):
    model, new, _ = fitted
    assert 0 < model.score(new) <= 1
