from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, TensorData, datasets
from parafair.encoders import Learned
from parafair.encoders.filling import Filling
from tests.reference.filling import filled_entries

QUICK = Learned(hidden=8, steps=30, learning_rate=0.03)


@pytest.fixture(scope="module")
def data():
    data = datasets.synthetic(0, shape=(120, 6, 5), rank=3)
    noise = np.random.default_rng(0).standard_normal(data.tensor.shape)
    return replace(data, tensor=np.array(data.tensor) + 0.2 * noise)


@pytest.fixture(scope="module", params=["network", "fair-pca", "kernel-perez-suay"])
def model(request, data):
    """A model whose people had all entries."""
    settings = {"encoder": QUICK} if request.param == "network" else {"method": request.param}
    return FairCP(rank=2, **settings).fit(data.tensor, sensitive_features=data.sensitive_features)


@pytest.fixture(scope="module")
def holes(data):
    tensor = np.array(data.tensor)
    tensor[np.random.default_rng(1).random(tensor.shape) < 0.3] = np.nan
    tensor[:5] = data.tensor[:5]
    return tensor


def test_missing_entries_are_predicted_as_for_one_person_at_a_time():
    random = np.random.default_rng(0)
    rows, other = random.standard_normal((40, 3)) + 1, random.standard_normal((7, 3))
    entries = rows[:10] @ other.T + 0.3 * random.standard_normal((10, 7))
    entries[random.random(entries.shape) < 0.5] = np.nan
    filling = Filling.of([torch.as_tensor(rows), torch.as_tensor(other)], 0, error=0.09)
    expected = [filled_entries(own, other, rows, 0.09) for own in entries]
    found = filling.fill(TensorData(torch.as_tensor(entries)))
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)


def test_people_may_be_in_any_mode():
    random = np.random.default_rng(0)
    factors = [torch.as_tensor(random.standard_normal((size, 2))) for size in (4, 9, 3)]
    tensor = random.standard_normal((4, 9, 3))
    tensor[random.random(tensor.shape) < 0.5] = np.nan
    tensor[0, :, 0] = 1.0
    second = Filling.of(factors, 1, error=0.1).fill(TensorData(torch.as_tensor(tensor)))
    moved = [factors[1], factors[0], factors[2]]
    turned = TensorData(torch.as_tensor(tensor.swapaxes(0, 1).copy()))
    first = Filling.of(moved, 0, error=0.1).fill(turned)
    torch.testing.assert_close(second.values, first.values.swapaxes(0, 1))


def test_new_people_with_holes_are_embedded_like_their_filled_entries(model, data, holes):
    rows = model.transform(holes)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows[:5], model.transform(data.tensor[:5]), atol=1e-6)
    exact = model.exact_release(holes[5:], data.sensitive_features[5:]).rows
    factors = list(model.cp_.factors)
    filling = Filling.of(factors, 0, error=model.fit_.history[-1].loss)
    filled = filling.fill(TensorData(torch.as_tensor(holes[5:])))
    torch.testing.assert_close(exact, model.encoder_.encode(filled))


def test_a_person_with_holes_does_not_depend_on_others(model, holes):
    everybody = model.transform(holes)
    order = np.random.default_rng(2).permutation(len(holes))
    np.testing.assert_allclose(model.transform(holes[order]), everybody[order], atol=1e-6)
    np.testing.assert_allclose(model.transform(holes[7:8]), everybody[7:8], atol=1e-6)


def test_holes_change_rows_less_than_forgetting_the_person(model, data, holes):
    features = data.sensitive_features
    exact, known = (
        model.exact_release(x + 0.0, features).rows for x in (data.tensor + 1e-6, holes)
    )
    changes, spread = (exact - known).square().mean(), exact.var(0).mean()
    assert changes < 0.5 * spread


def test_a_person_without_entries_gets_the_mean_row(model, holes):
    nobody = np.full_like(holes[:1], np.nan)
    with pytest.warns(UserWarning, match="no observed entries; their rows are the mean"):
        rows = model.transform(np.concatenate([holes[:3], nobody]))
    np.testing.assert_allclose(rows[3], model.embedding_.mean(0), atol=1e-6)
    np.testing.assert_allclose(rows[:3], model.transform(holes[:3]), atol=1e-6)
