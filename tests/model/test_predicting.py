import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, FairTucker, TensorData

COLUMNS = ("who", "what", "when")


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    values = random.normal(size=(10, 5, 4)) + np.arange(4)
    values[random.random(values.shape) < 0.4] = np.nan
    return TensorData.from_array(values, modes=COLUMNS, labels=(list("abcdefghij"), None, None))


def fit(data, **settings):
    settings = {"center": True, "ridge": 1.0, "tol": 1e-2, **settings}
    return FairCP(2, method="none", random_state=0, **settings).fit(data)


def test_unknown_labels_are_predicted_from_the_offsets_of_the_known_ones(data):
    model = fit(data)
    cells = pd.DataFrame({"who": ["a", "zoe", "zoe", "a"], "what": [1, 1, 99, 99],
                          "when": [2, 2, 3, 3]})  # fmt: skip
    found = model.predict(cells, unknown="offsets")
    offsets = model.training_.offsets
    what, when = offsets.by_mode[1], offsets.by_mode[2]
    assert found[0] == model.predict(cells[:1])[0]
    np.testing.assert_allclose(found[1], offsets.mean + what[1] + when[2])
    np.testing.assert_allclose(found[2:], offsets.mean + when[3])


def test_known_cells_are_predicted_as_ever(data):
    model = fit(data)
    np.testing.assert_array_equal(model.predict(data, unknown="offsets"), model.predict(data))


def test_unknown_cells_of_a_tucker_model_have_the_mean(data):
    model = FairTucker((2, 2, 2), method="none", center=True, ridge=1.0, init="uniform", tol=1e-2)
    model.fit(data)
    cells = pd.DataFrame({"who": ["zoe", "a"], "what": [1, 99], "when": [2, 3]})
    offsets = model.training_.offsets
    expected = [offsets.mean + offsets.by_mode[1][1 * 4 + 2], offsets.mean]
    np.testing.assert_allclose(model.predict(cells, unknown="offsets"), expected)


def test_intercepts_of_a_loss_with_a_link_are_offsets_too(data):
    events = data.with_values((data.values > 1).double().where(~data.values.isnan(), np.nan))
    model = fit(events, loss="bernoulli")
    cells = pd.DataFrame({"who": ["zoe"], "what": [99], "when": [3]})
    logit = model.training_.offsets.mean + model.training_.offsets.by_mode[2][3]
    expected = 1 / (1 + np.exp(-float(logit)))
    np.testing.assert_allclose(model.predict(cells, unknown="offsets")[0], expected)


def test_without_offsets_nothing_is_known_of_unknown_labels(data):
    cells = pd.DataFrame({"who": ["zoe"], "what": [1], "when": [2]})
    with pytest.raises(ValueError, match="needs a model with offsets, but this one has none"):
        fit(data, center=False).predict(cells, unknown="offsets")
    message = "mode 'who' has no label zoe .*unknown='offsets' predicts them from the offsets"
    with pytest.raises(ValueError, match=message):
        fit(data).predict(cells)
    with pytest.raises(ValueError, match="unknown must be one of error, offsets; got 'zero'"):
        fit(data).predict(cells, unknown="zero")
