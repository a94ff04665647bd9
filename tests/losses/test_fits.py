"""Fits with every loss: missing entries, ridge, several modes, precision, files, new people."""

import numpy as np
import pytest

from parafair import FairCP, frontier, losses
from parafair.losses import LOSSES
from parafair.report import write_report
from tests.reference import losses as reference

SETTINGS = (*LOSSES.values(), losses.Binomial(trials=3), losses.NegativeBinomial(shape=2.5))
GROUPS, ITEMS = np.resize(["a", "b"], 24), np.resize(["c", "d"], 6)

pytestmark = [
    pytest.mark.parametrize("loss", SETTINGS, ids=repr),
    pytest.mark.filterwarnings("ignore:FairCP after .* did not converge"),
]


def entries_of(loss, missing=0.0, seed=0):
    """Entries that the loss accepts: 24 people, 6 items, 5 times."""
    drawn = [reference.example(loss.name, (24, 6, 5), 2, missing, seed + k).numpy() for k in (0, 1)]
    return drawn[0] + drawn[1] if getattr(loss, "trials", 1) > 1 else drawn[0]


def model_of(loss, **settings):
    return FairCP(2, **{"loss": loss, "max_iter": 8, "noise": 0.1, "ridge": 1.0, **settings})


def test_a_fit_with_missing_entries_and_several_modes_is_finite_stored_and_used(loss, tmp_path):
    data = entries_of(loss, missing=0.3)
    model = model_of(loss).fit(data, sensitive_features={0: GROUPS, 1: ITEMS})
    model.save(tmp_path / "model")
    again = FairCP.load(tmp_path / "model")
    new = entries_of(loss, missing=0.3, seed=7)[:5]
    rows = model.transform(new, sensitive_features=GROUPS[:5])
    assert again.training_.loss == loss
    assert np.isfinite(rows).all()
    np.testing.assert_array_equal(again.transform(new, sensitive_features=GROUPS[:5]), rows)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    means = model.inverse_transform(model.embedding_)
    assert np.isfinite(means).all()
    if loss.name in ("bernoulli", "binomial", "bernoulli-poisson"):
        assert 0 <= means.min() <= means.max() <= getattr(loss, "trials", 1)
    elif loss.name not in ("squared", "huber"):
        assert means.min() >= 0
    assert np.isfinite([model.fit_.objective, model.fit_.residual, model.score(new)]).all()


def test_sensitive_features_of_another_mode_and_the_ridge_change_the_fit(loss):
    data = entries_of(loss)
    plain, other, held = (
        model_of(loss, ridge=ridge, noise=0.05).fit(data, sensitive_features=features).cp_.factors
        for ridge, features in ((1.0, {0: GROUPS}), (1.0, {0: GROUPS, 1: ITEMS}), (30.0, GROUPS))
    )
    assert not np.allclose(plain[1], other[1], rtol=1e-3)
    assert not np.allclose(plain[0], held[0], rtol=1e-3)


def test_single_precision_is_near_double_precision(loss):
    data = entries_of(loss)
    found = [model_of(loss, method="none", noise=0).fit(data.astype(kind)) for kind in ("f4", "f8")]
    assert [model.embedding_.dtype for model in found] == [np.float32, np.float64]
    # Few iterations from the same start.
    assert found[0].fit_.residual == pytest.approx(found[1].fit_.residual, rel=1e-3)


@pytest.mark.slow
def test_a_frontier_is_fitted_in_a_batch_and_its_report_has_the_measure(loss, tmp_path):
    data = entries_of(loss, missing=0.2)
    found = frontier(
        model_of(loss), data, sensitive_features=GROUPS, strengths=[0, 10, 100],
        audits={"attackers": ["linear"]},
    )  # fmt: skip
    assert all(np.isfinite(point.fit.residual) for point in found.points)
    write_report(found, tmp_path / "report.html")
    assert loss.measure.removeprefix("relative ") in (tmp_path / "report.html").read_text()
