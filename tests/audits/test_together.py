import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from parafair.audits.attackers import ATTACKERS
from parafair.audits.estimators import PriorCorrected
from parafair.audits.networks import TunedNetworkClassifier
from parafair.audits.together import fit_all, trains_together
from parafair.testing import example_rows

ROWS = example_rows(60, 3, seed=0).numpy()
LABELS = (ROWS[:, 0] > 0).astype(int)


def test_networks_are_trained_together():
    names = [name for name, a in ATTACKERS.items() if trains_together(a.make("categorical", 0))]
    assert names == ["network", "paper-network"]
    names = [name for name, a in ATTACKERS.items() if trains_together(a.make("numeric", 0))]
    assert names == ["network", "paper-network"]
    assert not trains_together(PriorCorrected(GaussianNB()))


def test_other_models_are_trained_one_by_one():
    models = [LogisticRegression(), LogisticRegression()]
    fit_all(models, [(ROWS, LABELS), (ROWS[:20], 1 - LABELS[:20])])
    assert (models[0].predict(ROWS) == LABELS).mean() > 0.9
    assert (models[1].predict(ROWS) == LABELS).mean() < 0.2


def test_a_wrapper_passes_the_training_sets_on():
    sets = [(ROWS, LABELS), (ROWS[:40], LABELS[:40])]
    models = [PriorCorrected(TunedNetworkClassifier(steps=20, random_state=i)) for i in range(2)]
    fit_all(models, sets)
    for i, (model, own) in enumerate(zip(models, sets, strict=True)):
        alone = PriorCorrected(TunedNetworkClassifier(steps=20, random_state=i)).fit(*own)
        found, expected = model.predict_proba(ROWS), alone.predict_proba(ROWS)
        np.testing.assert_allclose(found, expected, atol=1e-3)  # rounding in single precision
        np.testing.assert_array_equal(model.shares_, alone.shares_)
