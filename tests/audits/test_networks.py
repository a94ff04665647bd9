import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from parafair.audits import networks
from parafair.audits.estimators import PriorCorrected
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


class TestTogether:
    """Training sets of different sizes; one lacks a class, one has fewer columns."""

    def sets(self, numeric):
        labels = ROWS[:, 0] if numeric else np.digitize(ROWS[:, 0], [-0.6, 0.6])
        low = ROWS[:, 0] < 0.6
        sizes = [90, 60, 60, 59]
        drawn = [np.random.RandomState(i).permutation(200)[:n] for i, n in enumerate(sizes)]
        found = [(ROWS[rows], labels[rows]) for rows in drawn]
        return [*found, (ROWS[low][:60], labels[low][:60]), (ROWS[:60, :4], labels[:60])]

    def pair(self, network, numeric, **settings):
        """Return the outputs of models trained together, then one by one."""
        sets, found = self.sets(numeric), []
        together = [network(random_state=i, **settings) for i in range(len(sets))]
        together[0].fit_together(together, sets)
        for i, (model, (rows, labels)) in enumerate(zip(together, sets, strict=True)):
            alone = network(random_state=i, **settings).fit(rows, labels)
            seen = ROWS[:, : rows.shape[1]]
            found.append((model._outputs(seen), alone._outputs(seen)))
        return found

    @pytest.mark.parametrize("network", CLASSIFIERS + REGRESSIONS)
    def test_models_are_those_trained_one_by_one(self, network):
        # Rounding in single precision; Adam's first steps enlarge it.
        for together, alone in self.pair(network, network in REGRESSIONS):
            np.testing.assert_allclose(together, alone, atol=1e-3)

    @pytest.mark.parametrize("network", [PaperNetworkClassifier, TunedNetworkClassifier])
    def test_the_size_of_batches_does_not_matter(self, network, monkeypatch):
        counts = []

        def train(self, tasks, old=network._train):
            counts.append(len(tasks))
            old(self, tasks)

        monkeypatch.setattr(network, "_train", train)
        model = network()
        monkeypatch.setattr(networks, "BATCH_BYTES", 2 * model._bytes(60))
        settings = {"epochs": 5} if network is PaperNetworkClassifier else {"steps": 20}
        sets = 5 * self.sets(numeric=False)[1:2]
        together = [network(random_state=i, **settings) for i in range(5)]
        together[0].fit_together(together, sets)
        assert counts == [2, 2, 1]
        monkeypatch.setattr(networks, "BATCH_BYTES", 0)
        others = [network(random_state=i, **settings) for i in range(5)]
        others[0].fit_together(others, sets)
        assert counts[3:] == [1] * 5
        for one, other in zip(together, others, strict=True):
            np.testing.assert_allclose(one._outputs(ROWS), other._outputs(ROWS), atol=1e-3)

    def test_classes_are_those_of_the_own_training_set(self):
        sets = self.sets(numeric=False)[1:5]
        models = [PriorCorrected(TunedNetworkClassifier(steps=10, random_state=0)) for _ in sets]
        models[0].fit_together(models, sets)
        assert [model.classes_.tolist() for model in models] == [[0, 1, 2]] * 3 + [[0, 1]]
        assert models[-1].predict_proba(ROWS).shape == (200, 2)
        assert set(models[-1].predict(ROWS)) <= {0, 1}
