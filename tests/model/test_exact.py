from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData, certify, datasets, split_people

DATA = datasets.synthetic(0, shape=(80, 10, 8), rank=3)
NEW = datasets.synthetic(1, shape=(120, 10, 8), rank=3)


@pytest.fixture(scope="module")
def model():
    model = FairCP(3, method="transport", noise=0.5)
    return model.fit(DATA.tensor, sensitive_features=DATA.sensitive_features)


def test_released_rows_are_exact_rows_plus_noise(model):
    release = model.exact_release()
    torch.testing.assert_close(release.rows, model.fit_.noiseless)
    noise = model.embedding_ - release.rows.numpy()
    standard = noise @ np.linalg.inv(release.noise.numpy())
    assert np.cov(standard, rowvar=False) == pytest.approx(np.eye(3), abs=0.5)
    assert abs(standard.mean()) < 0.2


def test_new_people_are_released_as_by_transform(model):
    release = model.exact_release(NEW.tensor, NEW.sensitive_features)
    rows = model.transform(NEW.tensor, sensitive_features=NEW.sensitive_features)
    standard = (rows - release.rows.numpy()) @ np.linalg.inv(release.noise.numpy())
    assert standard.std() == pytest.approx(1, abs=0.15)
    assert release.held_out
    torch.testing.assert_close(release.noise, model.exact_release().noise)
    assert certify(model, NEW.tensor, NEW.sensitive_features, draws=500).leakage("population") > 0


def test_people_outside_the_criterion_are_not_certified():
    features = DATA.sensitive_features.astype(object)
    features[3] = None
    sensitive = SensitiveFeatures.of(features, missing="exclude")
    model = FairCP(2, method="transport", noise=0.5).fit(DATA.tensor, sensitive_features=sensitive)
    found = certify(model, draws=500)
    assert found.people == 79
    assert np.isnan(found.exposure).nonzero()[0].tolist() == [3]
    assert "1 of 80 people had no sensitive features or no entries" in " ".join(found.notes)


def test_training_people_are_recognized_by_their_entries(model):
    with pytest.raises(ValueError, match="80 of the 80 people of X_new have the same entries"):
        certify(model, DATA.tensor, DATA.sensitive_features)
    mixed = np.concatenate([NEW.tensor, DATA.tensor[:30]])
    features = np.concatenate([NEW.sensitive_features, DATA.sensitive_features[:30]])
    with pytest.raises(ValueError, match="30 of the 150 people of X_new have the same entries"):
        certify(model, mixed, features)
    few = np.concatenate([NEW.tensor, DATA.tensor[:2]])
    features = np.concatenate([NEW.sensitive_features, DATA.sensitive_features[:2]])
    found = certify(model, few, features, draws=500)
    assert "2 of 122 new people have the entries of a training person" in " ".join(found.notes)


def test_training_people_are_recognized_by_their_labels():
    names = [f"p{i}" for i in range(80)]
    data = TensorData.from_array(DATA.tensor, labels=[names, None, None])
    model = FairCP(2, method="transport", noise=0.5)
    model.fit(data, sensitive_features=DATA.sensitive_features)
    new = TensorData.from_array(NEW.tensor[:80], labels=[names, None, None])
    with pytest.raises(ValueError, match="80 of the 80 people of X_new were in the training"):
        certify(model, new, NEW.sensitive_features[:80])


def test_groups_of_new_people_are_checked_before_their_rows_are_computed(model, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("rows were computed")

    monkeypatch.setattr(FairCP, "_embed", fail)
    groups = np.array(["normal"] * len(NEW.tensor), object)
    with pytest.raises(ValueError, match="has nobody in the group 'uniform'"):
        certify(model, NEW.tensor, groups)
    groups[0] = "uniform"
    with pytest.raises(ValueError, match="has one person in the group 'uniform'"):
        certify(model, NEW.tensor, groups)


def test_split_people_are_held_out():
    data, groups = TensorData.from_array(DATA.tensor), DATA.sensitive_features
    split = split_people(data, test_size=0.3, groups=groups)
    model = FairCP(2, method="transport", noise=0.5)
    model.fit(data.take(0, split.train), sensitive_features=groups[split.train])
    found = certify(model, data.take(0, split.test), groups[split.test], draws=500)
    assert found.people == 24


def test_people_without_entries_are_left_out(model):
    data = NEW.tensor.copy()
    data[0] = np.nan
    found = certify(model, data, NEW.sensitive_features, draws=500)
    assert found.people == 119
    assert "1 of 120 new people have no entries" in " ".join(found.notes)


def test_a_model_without_exact_rows_is_refused(model):
    fit = replace(model.fit_, noiseless=None, plain=None)
    bare = FairCP.from_fit(fit, record=model.record_, training=model.training_)
    with pytest.raises(ValueError, match="the model was saved without exact rows"):
        certify(bare)
    # The rows of new people follow from their entries and from what was released.
    found, expected = (certify(m, NEW.tensor, NEW.sensitive_features) for m in (bare, model))
    assert found.leakage("population") == expected.leakage("population")


def test_models_that_cannot_be_certified_are_refused(model):
    plain = FairCP(2, method="none").fit(DATA.tensor)
    with pytest.raises(ValueError, match="the model was fitted without sensitive features"):
        certify(plain)
    without = FairCP(2, method="hsic", strength=1.0)
    without.fit(DATA.tensor, sensitive_features=DATA.sensitive_features)
    with pytest.raises(ValueError, match="noise is 0, so whoever holds the exact rows"):
        certify(without)
    with pytest.raises(ValueError, match="sensitive_features were given without X_new"):
        certify(model, sensitive_features=DATA.sensitive_features)
    with pytest.raises(ValueError, match="sensitive_features of the new people are missing"):
        certify(model, NEW.tensor)
    with pytest.raises(ValueError, match="sensitive_features has 5 rows but X has 120 people"):
        certify(model, NEW.tensor, NEW.sensitive_features[:5])
    with pytest.raises(ValueError, match="X must have shape"):
        certify(model, NEW.tensor[:, :5], NEW.sensitive_features)
