import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData
from parafair.encoders import KernelEncoder, KernelPerezSuay, kernel


def test_rows_are_similarities_times_weights_in_any_portions(monkeypatch):
    random = np.random.default_rng(0)
    entries, centers = random.standard_normal((7, 3)), random.standard_normal((4, 3))
    weights = random.standard_normal((4, 2))
    encoder = KernelEncoder(0, 0.5, torch.from_numpy(centers), torch.from_numpy(weights))
    near = np.exp(-0.5 * ((entries[:, None] - centers) ** 2).sum(-1))
    data = TensorData.from_array(entries)
    np.testing.assert_allclose(encoder.encode(data), near @ weights)
    monkeypatch.setattr(kernel, "MOST_AT_ONCE", 9)
    np.testing.assert_allclose(encoder.encode(data), near @ weights)
    np.testing.assert_allclose(
        encoder.then(torch.ones(2, 1)).encode(data)[:, 0], near @ weights.sum(1)
    )


def test_an_encoder_of_another_model_is_refused():
    encoder = KernelEncoder(0, 1.0, torch.zeros(4, 3), torch.zeros(4, 2))
    encoder.check((9, 3), 2)
    with pytest.raises(ValueError, match="it is for 3 entries per person, but the model has 5"):
        encoder.check((9, 5), 2)
    with pytest.raises(ValueError, match="but it has weights of 4"):
        KernelEncoder(0, 1.0, torch.zeros(5, 3), torch.zeros(4, 2)).check((9, 3), 2)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        KernelEncoder(0, "x", torch.zeros(4, 3), torch.zeros(4, 2))


def test_saving_entries_of_training_people_is_warned_of(people, tmp_path):
    entries, groups = people
    model = FairCP(2, method=KernelPerezSuay(landmarks=50)).fit(entries, sensitive_features=groups)
    with pytest.warns(UserWarning, match="contains the entries of 50 training people") as warned:
        model.save(tmp_path / "model")
    assert warned[0].filename == __file__
    rows = FairCP.load(tmp_path / "model").transform(entries[:3])
    np.testing.assert_allclose(rows, model.embedding_[:3])
