import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from parafair.audits.networks import (
    PaperNetworkClassifier,
    PaperNetworkRegressor,
    TunedNetworkClassifier,
    TunedNetworkRegressor,
)
from parafair.testing import example_rows

ROWS = example_rows(200, 6, seed=0).numpy()
CLASSIFIERS = [PaperNetworkClassifier, TunedNetworkClassifier]
REGRESSIONS = [PaperNetworkRegressor, TunedNetworkRegressor]


@pytest.mark.parametrize("network", CLASSIFIERS)
def test_classes_are_learned_under_their_own_names(network):
    labels = np.where(ROWS[:, 0] > 0, "b", "a")
    model = network(random_state=0).fit(ROWS, labels)
    assert model.classes_.tolist() == ["a", "b"]
    assert (model.predict(ROWS) == labels).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(ROWS).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("network", REGRESSIONS)
def test_numbers_are_learned_in_their_own_units(network):
    numbers = 1000 + 50 * ROWS[:, 0]
    model = network(random_state=0).fit(ROWS, numbers)
    assert np.abs(model.predict(ROWS) - numbers).mean() < 15


@pytest.mark.parametrize("network", CLASSIFIERS + REGRESSIONS)
def test_the_seed_is_honored(network):
    labels = (ROWS[:, 0] > 0).astype(int)
    first, same, other = (
        clone(network(random_state=seed)).fit(ROWS[:50], labels[:50]) for seed in (3, 3, 4)
    )
    outputs = [model._outputs(ROWS) for model in (first, same, other)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_the_tuned_network_is_stronger_than_the_papers():
    for labels in (ROWS[:, 0] * ROWS[:, 1] > 0, (ROWS[:, :2] ** 2).sum(1) > 1.4):
        paper, tuned = (
            cross_val_score(network(random_state=0), ROWS, labels.astype(int), cv=3).mean()
            for network in CLASSIFIERS
        )
        assert tuned > paper + 0.02


def test_a_network_that_overflows_knows_nothing():
    model = PaperNetworkRegressor(learning_rate=1e6, epochs=3, random_state=0)
    numbers = ROWS[:, 0] + 5
    np.testing.assert_allclose(model.fit(ROWS, numbers).predict(ROWS), numbers.mean())
